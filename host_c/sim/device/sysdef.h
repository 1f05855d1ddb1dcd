/* Types that older programs include by this name. */
#include "defs.h"
