/* Workers. Each has a queue of jobs and runs them in order on its own DPUs, so that the jobs
 * of one DPU follow each other and two DPUs never wait for one another. */
#define _GNU_SOURCE
#include "run.h"

#include <sched.h>
#include <string.h>

/* Smaller synchronous transfers are done by the caller, where nothing is queued. */
#define INLINE_BYTES (UINT64_C(256) << 10)

static uint32_t cpus(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : (uint32_t)count;
}

static bool wanted(const struct job *job, uint32_t i) {
    return job->kind == JOB_LAUNCH || job->source != NULL || job->gather != NULL || job->buffers[i] != NULL;
}

/* All workers of a callback wait for each other, and then for the call, which may use their DPUs. */
static dpu_error_t meet(struct worker *worker, struct job *job) {
    struct sim *sim = worker->sim;
    dpu_error_t error = DPU_OK;
    pthread_mutex_lock(&sim->lock);
    if (++job->arrived == job->involved) {
        pthread_mutex_unlock(&sim->lock);
        error = sim_call_back(job);
        pthread_mutex_lock(&sim->lock);
        job->called = true;
        pthread_cond_broadcast(&sim->finished);
    }
    while (!job->called)
        pthread_cond_wait(&sim->finished, &sim->lock);
    pthread_mutex_unlock(&sim->lock);
    return error;
}

static dpu_error_t run_one(struct worker *worker, struct job *job, uint32_t i) {
    if (!wanted(job, i))
        return DPU_OK;
    return job->kind == JOB_LAUNCH ? sim_run(worker->run, job->dpus[i]) : sim_transfer_one(job, i);
}

static dpu_error_t run_job(struct worker *worker, struct job *job) {
    dpu_error_t first = DPU_OK;
    if (job->kind == JOB_CALLBACK)
        return job->detached ? DPU_OK : meet(worker, job);
    for (uint32_t i = 0; i < job->count; i++) {
        dpu_error_t error = job->dpus[i]->worker == worker->index ? run_one(worker, job, i) : DPU_OK;
        if (error != DPU_OK && first == DPU_OK)
            first = error;
    }
    return first;
}

static dpu_error_t async_error(const struct job *job, dpu_error_t error) {
    uint32_t type = job->kind == JOB_LAUNCH ? SIM_JOB_LAUNCH_RANK : SIM_JOB_COPY;
    return job->kind == JOB_CALLBACK
               ? error /* the callback's own */
               : (dpu_error_t)((uint32_t)DPU_ERR_ASYNC_JOBS | type << 16 | (uint32_t)error);
}

static void finish(struct sim *sim, struct worker *worker, struct job *job, dpu_error_t error) {
    for (uint32_t i = 0; i < job->count; i++) {
        struct dpu_t *dpu = job->dpus[i];
        if (dpu->worker != worker->index)
            continue;
        dpu->pending--;
        if (error != DPU_OK && job->asynchronous && dpu->async_error == DPU_OK)
            dpu->async_error = async_error(job, error);
    }
    if (error != DPU_OK && job->error == DPU_OK)
        job->error = error;
    if (--job->remaining == 0) {
        job->done = true;
        if (job->detached && !sim_call_back_detached(sim, job))
            job->dpus[0]->async_error = DPU_ERR_SYSTEM;
        if (job->asynchronous && !job->detached)
            sim_job_free(job);
    }
    pthread_cond_broadcast(&sim->finished);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct sim *sim = worker->sim;
    void *stack = sim_signals_stack();
    pthread_mutex_lock(&sim->lock);
    for (;;) {
        struct sim_link *link = worker->first;
        if (link == NULL) {
            if (sim->stop)
                break;
            pthread_cond_wait(&sim->wake, &sim->lock);
            continue;
        }
        worker->first = link->next;
        if (worker->first == NULL)
            worker->last = &worker->first;
        pthread_mutex_unlock(&sim->lock);
        dpu_error_t error = run_job(worker, link->job);
        pthread_mutex_lock(&sim->lock);
        finish(sim, worker, link->job, error);
    }
    pthread_mutex_unlock(&sim->lock);
    sim_signals_stack_free(stack);
    return NULL;
}

dpu_error_t sim_pool_start(struct sim *sim) {
    uint32_t count = sim->profile.workers != 0 ? sim->profile.workers : cpus();
    count = count < sim->nr_dpus ? count : sim->nr_dpus;
    sim->workers = calloc(count, sizeof *sim->workers);
    if (sim->workers == NULL)
        return DPU_ERR_SYSTEM;
    for (uint32_t i = 0; i < sim->nr_dpus; i++)
        sim->dpus[i].worker = i % count;
    for (uint32_t i = 0; i < count; i++) {
        struct worker *worker = &sim->workers[i];
        *worker = (struct worker){.sim = sim, .index = i, .last = &worker->first, .run = sim_run_new()};
        if (worker->run == NULL)
            return DPU_ERR_SYSTEM;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            sim_run_free(worker->run);
            return DPU_ERR_SYSTEM;
        }
        sim->nr_workers = i + 1;
    }
    return DPU_OK;
}

void sim_pool_stop(struct sim *sim) {
    pthread_mutex_lock(&sim->lock);
    sim->stop = true;
    pthread_cond_broadcast(&sim->wake);
    pthread_mutex_unlock(&sim->lock);
    for (uint32_t i = 0; i < sim->nr_workers; i++) {
        pthread_join(sim->workers[i].thread, NULL);
        sim_run_free(sim->workers[i].run);
    }
    free(sim->workers);
}

struct job *sim_job_new(const struct dpu_set_t *set, enum job_kind kind, bool with_buffers) {
    struct sim *sim = sim_of_set(set);
    uint32_t count = sim_count_dpus(set);
    struct job *job = calloc(1, sizeof *job + sim->nr_workers * sizeof(struct sim_link));
    if (job == NULL)
        return NULL;
    job->kind = kind;
    job->count = count;
    job->dpus = malloc(count * sizeof(struct dpu_t *));
    job->buffers = with_buffers ? malloc(count * sizeof(void *)) : NULL;
    if (job->dpus == NULL || (with_buffers && job->buffers == NULL)) {
        sim_job_free(job);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        job->dpus[i] = sim_dpu_of_set(set, i);
        if (with_buffers)
            job->buffers[i] = job->dpus[i]->buffer;
    }
    return job;
}

void sim_job_free(struct job *job) {
    free(job->dpus);
    free(job->buffers);
    free(job->gather);
    free(job->call_back);
    free(job);
}

/* Under the lock: is nothing queued or running for the job's DPUs? */
static bool idle(const struct job *job) {
    for (uint32_t i = 0; i < job->count; i++)
        if (job->dpus[i]->pending != 0)
            return false;
    return true;
}

/* In a callback the job's workers wait for its end: it does their work. */
static dpu_error_t do_at_once(struct sim *sim, struct job *job) {
    dpu_error_t error = DPU_OK;
    for (uint32_t i = 0; i < job->count && error == DPU_OK; i++)
        error = run_one(&sim->workers[job->dpus[i]->worker], job, i);
    sim_job_free(job);
    return error;
}

dpu_error_t sim_job_submit(struct sim *sim, struct job *job, const struct dpu_set_t *set) {
    if (sim_holds(set))
        return do_at_once(sim, job);
    pthread_mutex_lock(&sim->lock);
    if ((job->kind == JOB_TO_DPU || job->kind == JOB_FROM_DPU) && job->gather == NULL && !job->asynchronous &&
        job->count * job->length <= INLINE_BYTES && idle(job)) {
        for (uint32_t i = 0; i < job->count; i++)
            if (wanted(job, i))
                (void)sim_transfer_one(job, i);
        pthread_mutex_unlock(&sim->lock);
        sim_job_free(job);
        return DPU_OK;
    }
    sim->detached += job->detached;
    for (uint32_t i = 0; i < job->count; i++) {
        struct sim_link *link = &job->links[job->dpus[i]->worker];
        job->dpus[i]->pending++;
        if (link->job != NULL)
            continue;
        struct worker *worker = &sim->workers[job->dpus[i]->worker];
        *link = (struct sim_link){.job = job};
        *worker->last = link;
        worker->last = &link->next;
        job->remaining++;
        job->involved++;
    }
    pthread_cond_broadcast(&sim->wake);
    dpu_error_t error = DPU_OK;
    if (!job->asynchronous) {
        while (!job->done)
            pthread_cond_wait(&sim->finished, &sim->lock);
        error = job->error;
        sim_job_free(job);
    }
    pthread_mutex_unlock(&sim->lock);
    return error;
}

void sim_wait(struct sim *sim, const struct dpu_set_t *set) {
    uint32_t count = sim_count_dpus(set);
    if (sim_holds(set))
        return;
    pthread_mutex_lock(&sim->lock);
    for (uint32_t i = 0; i < count; i++)
        while (sim_dpu_of_set(set, i)->pending != 0)
            pthread_cond_wait(&sim->finished, &sim->lock);
    pthread_mutex_unlock(&sim->lock);
}

void sim_wait_all(struct sim *sim, const struct dpu_set_t *set) {
    sim_wait(sim, set);
    if (sim_holds(set))
        return;
    pthread_mutex_lock(&sim->lock);
    while (sim->detached != 0)
        pthread_cond_wait(&sim->finished, &sim->lock);
    pthread_mutex_unlock(&sim->lock);
}
