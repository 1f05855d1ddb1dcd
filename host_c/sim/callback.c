#define _GNU_SOURCE
/* Callbacks: functions of the host in order with the jobs of a set. */
#include "sim.h"

/* The callback that runs on this thread, while its workers wait. */
static _Thread_local const struct job *current;

bool sim_holds(const struct dpu_set_t *set) {
    if (current == NULL)
        return false;
    const struct dpu_set_t *held = &current->call_back->set;
    const struct dpu_t *first = sim_dpu_of_set(held, 0), *one = sim_dpu_of_set(set, 0);
    uint32_t count = sim_count_dpus(held);
    return one->sim == first->sim && one->index >= first->index &&
           one->index + sim_count_dpus(set) <= first->index + count;
}

static dpu_error_t call(const struct call_back *call_back) {
    return call_back->function(call_back->set, call_back->index, call_back->args);
}

dpu_error_t sim_call_back(const struct job *job) {
    const struct job *outer = current;
    current = job;
    dpu_error_t error = call(job->call_back);
    current = outer;
    return error;
}

static void *run_detached(void *argument) {
    struct job *job = argument;
    struct sim *sim = job->dpus[0]->sim;
    dpu_error_t error = call(job->call_back);
    pthread_mutex_lock(&sim->lock);
    if (error != DPU_OK && job->dpus[0]->async_error == DPU_OK)
        job->dpus[0]->async_error = error;
    sim->detached--;
    pthread_cond_broadcast(&sim->finished);
    pthread_mutex_unlock(&sim->lock);
    sim_job_free(job);
    return NULL;
}

bool sim_call_back_detached(struct sim *sim, struct job *job) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_detached, job) == 0) {
        pthread_detach(thread);
        return true;
    }
    sim->detached--;
    sim_job_free(job);
    return false;
}

static dpu_error_t queue(struct sim *sim, const struct call_back *call_back, bool detached) {
    struct job *job = sim_job_new(&call_back->set, JOB_CALLBACK, false);
    if (job != NULL)
        job->call_back = malloc(sizeof *job->call_back);
    if (job == NULL || job->call_back == NULL) {
        if (job != NULL)
            sim_job_free(job);
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_callback: out of memory");
    }
    *job->call_back = *call_back;
    job->asynchronous = true;
    job->detached = detached;
    return sim_job_submit(sim, job, &call_back->set);
}

dpu_error_t dpu_callback(struct dpu_set_t dpu_set,
                         dpu_error_t (*callback)(struct dpu_set_t, uint32_t, void *), void *args,
                         dpu_callback_flags_t flags) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_callback", &sim);
    bool later = (flags & DPU_CALLBACK_ASYNC) != 0, detached = (flags & DPU_CALLBACK_NONBLOCKING) != 0;
    if (error != DPU_OK)
        return error;
    if (detached && !later)
        return sim_fail(sim, DPU_ERR_NONBLOCKING_SYNC_CALLBACK,
                        "dpu_callback: nonblocking, but not asynchronous");
    if (sim_holds(&dpu_set))
        return sim_fail(sim, DPU_ERR_INVALID_DPU_SET, "dpu_callback: in a callback of the same rank");
    if (!later)
        sim_wait(sim, &dpu_set);
    bool single = (flags & DPU_CALLBACK_SINGLE_CALL) != 0 || dpu_set.kind == DPU_SET_DPU;
    uint32_t calls = single ? 1 : dpu_set.list.nr_ranks;
    for (uint32_t i = 0; i < calls; i++) {
        struct call_back call_back = {callback, args, dpu_set, i};
        if (!single) {
            call_back.set.list.nr_ranks = 1;
            call_back.set.list.ranks = &dpu_set.list.ranks[i];
        }
        dpu_error_t got = later ? queue(sim, &call_back, detached) : call(&call_back);
        error = error == DPU_OK ? got : error;
    }
    return error;
}

dpu_error_t dpu_fifo_prepare_xfer(struct dpu_set_t dpu_set, struct dpu_fifo_link_t *fifo_link, void *buffer) {
    (void)dpu_set;
    (void)fifo_link;
    (void)buffer;
    return sim_fail_no_set(DPU_ERR_INTERNAL, "dpu_fifo_prepare_xfer: FIFOs are not simulated");
}

dpu_error_t dpu_fifo_push_xfer(struct dpu_set_t dpu_set, struct dpu_fifo_link_t *fifo_link,
                               dpu_xfer_flags_t flags) {
    (void)dpu_set;
    (void)fifo_link;
    (void)flags;
    return sim_fail_no_set(DPU_ERR_INTERNAL, "dpu_fifo_push_xfer: FIFOs are not simulated");
}
