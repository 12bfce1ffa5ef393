// relive: link=static
// A new program may not read the time stamp counter if the old one forbade it. (One that is linked
// dynamically would not even begin.)
#include "check.h"
#include <sys/prctl.h>

int main(int count, char **arguments) {
    (void)arguments;
    int mode = 0;
    CHECK(prctl(PR_GET_TSC, &mode) == 0);
    if (count > 1) {
        CHECK(mode == PR_TSC_SIGSEGV);
        return ok();
    }
    CHECK(mode == PR_TSC_ENABLE && prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
    execl("/proc/self/exe", "exe", "second", NULL);
    CHECK(0);
}
