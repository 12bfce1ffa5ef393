// relive: signal=SIGABRT link=pie,static
// An exception that meets a noexcept boundary: terminate handler, then SIGABRT; frames above
// are not unwound.
#include "check.h"
#include <exception>
#include <sys/resource.h>

struct Loud {
    ~Loud() { puts("unwound"); }
};

static void fence(int n) noexcept {
    if (n > 0) throw n;
}

static void terminated() {
    puts("terminate");
    fflush(stdout);
    abort();
}

int main(int argc, char **) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    std::set_terminate(terminated);
    try {
        Loud loud;
        fence(argc);
    } catch (int) {
        puts("caught");
    }
    return 0;
}
