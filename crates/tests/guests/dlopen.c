// relive: flags="-ldl" sketch=yes
// A shared library loaded, used and dropped many times; symbols by name; a missing library.
#include "check.h"
#include <dlfcn.h>
#include <link.h>

static int objects;
static int count(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info;
    (void)size;
    (void)data;
    objects++;
    return 0;
}

int main(void) {
    CHECK(dlopen("libno-such-library.so", RTLD_NOW) == NULL && dlerror() != NULL);
    dl_iterate_phdr(count, NULL);
    int before = objects;
    for (int i = 0; i < 20; i++) {
        void *lib = dlopen("libm.so.6", i % 2 ? RTLD_NOW : RTLD_LAZY);
        CHECK(lib != NULL);
        double (*power)(double, double) = (double (*)(double, double))dlsym(lib, "pow");
        double (*root)(double) = (double (*)(double))dlsym(lib, "sqrt");
        CHECK(power && root && power(2, 10) == 1024 && root(81) == 9 && dlsym(lib, "no_such_symbol") == NULL);
        objects = 0;
        dl_iterate_phdr(count, NULL);
        CHECK(objects == before + 1);
        Dl_info info;
        CHECK(dladdr((void *)power, &info) && strstr(info.dli_fname, "libm"));
        CHECK(dlclose(lib) == 0);
        objects = 0;
        dl_iterate_phdr(count, NULL);
        CHECK(objects == before);
    }
    CHECK(dlsym(RTLD_DEFAULT, "puts") != NULL);
    return ok();
}
