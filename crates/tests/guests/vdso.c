// relive: link=pie,static output=free
// The vDSO: found by hand through the auxiliary vector, its functions by name and version, as
// runtimes without a C library do it; they agree with the system calls, bad pointers fault at
// an instruction of it, and clocks that it does not read go the way of a system call.
#include "fault.h"
#include <elf.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static const char *base;
static const Elf64_Sym *symbols;
static const char *strings;
static const uint32_t *hash;
static const uint16_t *versions;
static const char *definitions;

static void find_tables(void) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)base;
    CHECK(memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_machine == EM_X86_64);
    const Elf64_Phdr *segment = (const Elf64_Phdr *)(base + header->e_phoff);
    const Elf64_Dyn *dynamic = NULL;
    long bias = 0;
    int loads = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segment[i].p_type == PT_LOAD) {
            bias = (long)base + (long)segment[i].p_offset - (long)segment[i].p_vaddr;
            loads++;
        }
        if (segment[i].p_type == PT_DYNAMIC) dynamic = (const Elf64_Dyn *)(base + segment[i].p_offset);
    }
    CHECK(loads == 1 && dynamic != NULL);
    const char *soname = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        const char *at = (const char *)bias + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB) strings = at;
        if (dynamic->d_tag == DT_SYMTAB) symbols = (const Elf64_Sym *)at;
        if (dynamic->d_tag == DT_HASH) hash = (const uint32_t *)at;
        if (dynamic->d_tag == DT_VERSYM) versions = (const uint16_t *)at;
        if (dynamic->d_tag == DT_VERDEF) definitions = at;
        if (dynamic->d_tag == DT_SONAME) soname = (const char *)dynamic->d_un.d_val;
    }
    CHECK(strings && symbols && hash && versions && definitions);
    CHECK(strcmp(strings + (long)soname, "linux-vdso.so.1") == 0);
}

static uint32_t hash_of(const char *name) {
    uint32_t h = 0;
    for (; *name; name++) {
        h = (h << 4) + (unsigned char)*name;
        h = (h ^ (h >> 24 & 0xf0)) & 0xfffffff;
    }
    return h;
}

static int has_version(int symbol, const char *wanted) {
    const char *at = definitions;
    for (;;) {
        const Elf64_Verdef *def = (const Elf64_Verdef *)at;
        const Elf64_Verdaux *aux = (const Elf64_Verdaux *)(at + def->vd_aux);
        if (!(def->vd_flags & VER_FLG_BASE) && def->vd_ndx == (versions[symbol] & 0x7fff))
            return def->vd_hash == hash_of(wanted) && strcmp(strings + aux->vda_name, wanted) == 0;
        if (def->vd_next == 0) return 0;
        at += def->vd_next;
    }
}

static void *find(const char *name) {
    uint32_t buckets = hash[0];
    for (uint32_t i = hash[2 + hash_of(name) % buckets]; i != 0; i = hash[2 + buckets + i]) {
        if (strcmp(strings + symbols[i].st_name, name) != 0) continue;
        CHECK(ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_shndx != SHN_UNDEF);
        CHECK(has_version((int)i, "LINUX_2.6"));
        return (void *)(base + symbols[i].st_value);
    }
    return NULL;
}

static int (*read_clock)(clockid_t, struct timespec *);
static int (*read_resolution)(clockid_t, struct timespec *);
static int (*read_day)(struct timeval *, struct timezone *);
static time_t (*read_time)(time_t *);
static long (*read_cpu)(unsigned *, unsigned *, void *);

static int64_t ns(struct timespec t) { return t.tv_sec * 1000000000L + t.tv_nsec; }

static int64_t asked(clockid_t clock) {
    struct timespec t;
    CHECK(syscall(SYS_clock_gettime, clock, &t) == 0);
    return ns(t);
}

static sigjmp_buf out;
static void *volatile fault_address, *volatile fault_pc;
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    fault_address = info->si_addr;
    fault_pc = (void *)REG(context, RIP);
    siglongjmp(out, 1);
}

#define FAULTS(call, address)                                                            \
    do {                                                                                 \
        if (sigsetjmp(out, 1) == 0) {                                                    \
            (void)(call);                                                                \
            CHECK(!"it faults");                                                         \
        }                                                                                \
        CHECK(fault_address == (void *)(address));                                       \
        CHECK((const char *)fault_pc >= base && (const char *)fault_pc < base + 0x10000); \
    } while (0)

int main(void) {
    base = (const char *)getauxval(AT_SYSINFO_EHDR);
    if (base == NULL) return ok();
    find_tables();
    read_clock = find("__vdso_clock_gettime");
    read_resolution = find("__vdso_clock_getres");
    read_day = find("__vdso_gettimeofday");
    read_time = find("__vdso_time");
    read_cpu = find("__vdso_getcpu");
    CHECK(read_clock && read_resolution && read_day && read_time && read_cpu);
    CHECK(find("clock_gettime") == (void *)read_clock && find("no_such_function") == NULL);

    struct timespec t, r;
    for (clockid_t clock = 0; clock < 12; clock++) {
        if (clock == 10) continue; // never was one
        if (syscall(SYS_clock_gettime, clock, &t) != 0) continue;
        for (int i = 0; i < 50; i++) {
            int64_t before = asked(clock);
            CHECK(read_clock(clock, &t) == 0 && t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
            int64_t after = asked(clock);
            // Clocks of the day may be set.
            if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE && clock != CLOCK_TAI && clock != 8)
                CHECK(before <= ns(t) && ns(t) <= after);
        }
        CHECK(read_resolution(clock, &r) == 0 && syscall(SYS_clock_getres, clock, &t) == 0 && ns(r) == ns(t));
    }
    CHECK(read_clock(77, &t) == -EINVAL && read_clock(-1, &t) == -EINVAL);

    struct timeval day;
    struct timezone zone = {12345, 12345};
    CHECK(read_day(&day, NULL) == 0 && day.tv_usec >= 0 && day.tv_usec < 1000000);
    CHECK(read_day(&day, &zone) == 0 && zone.tz_minuteswest != 12345);
    CHECK(read_day(NULL, NULL) == 0 && read_day(NULL, &zone) == 0);
    time_t now = 0, again = read_time(&now);
    CHECK(again == now && now >= 1000000000 && read_time(NULL) >= now - 100000);
    unsigned cpu = 1u << 31, node = 1u << 31;
    CHECK(read_cpu(&cpu, &node, NULL) == 0 && cpu < 1u << 16 && node < 1u << 16);
    CHECK(read_cpu(NULL, NULL, NULL) == 0 && read_cpu(&cpu, NULL, NULL) == 0);
    CHECK(read_cpu(NULL, &node, NULL) == 0 && sched_getcpu() >= 0);

    handle(SIGSEGV, on_fault, 0);
    static struct timespec aligned;
    FAULTS(read_clock(CLOCK_MONOTONIC, NULL), 0);
    FAULTS(read_clock(CLOCK_REALTIME, (struct timespec *)16), 16);
    FAULTS(read_day((struct timeval *)4096, NULL), 4096);
    FAULTS(read_time((time_t *)8), 8);
    FAULTS(read_cpu((unsigned *)4, NULL, NULL), 4);
    FAULTS(read_clock(CLOCK_MONOTONIC, (struct timespec *)base), base);
    CHECK(read_clock(CLOCK_MONOTONIC, &aligned) == 0 && aligned.tv_sec > 0);
    // A clock that only the kernel reads: its own refusal.
    CHECK(read_clock(CLOCK_PROCESS_CPUTIME_ID, (struct timespec *)16) == -EFAULT);

    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (strstr(line, "[vdso]") == NULL) continue;
        CHECK(sscanf(line, "%lx-%lx r-xp", &start, &end) == 2 && start == (unsigned long)base);
        found++;
    }
    CHECK(found == 1);
    printf("%ld %ld %u\n", (long)now, (long)aligned.tv_nsec, cpu);
    return ok();
}
