/* One tasklet tells another that it got there. */
#ifndef DPUSIM_HANDSHAKE_H
#define DPUSIM_HANDSHAKE_H

#include "defs.h"

#ifndef EALREADY
#define EALREADY 114
#endif

static inline void handshake_notify(void) {
    dpusim_program.ops->notify("", 0);
}
static inline int handshake_wait_for(sysname_t notifier) {
    return dpusim_program.ops->wait_for(notifier, "", 0);
}

/* Blocks until a tasklet waits for this one. */
#define handshake_notify() dpusim_program.ops->notify(__FILE__, __LINE__)

/* Blocks until that tasklet notifies: 0, or EALREADY where another one waits for it already. */
#define handshake_wait_for(notifier) dpusim_program.ops->wait_for((notifier), __FILE__, __LINE__)

#endif
