/* The part of a program that belongs to its link: as many tasklets, and stacks, as that command says. */
#define DPUSIM_START
#include <dpusim_device.h>
