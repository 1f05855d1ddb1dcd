/* A DPU program without a log. */
#include <defs.h>

int main(void) {
    return 0;
}
