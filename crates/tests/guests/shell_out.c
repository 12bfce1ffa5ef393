// relive: expect="done\n" sketch=yes parallel=refused
// system and popen: output of children interleaved with the parent's own, exit statuses, both
// directions.
#include "check.h"

int main(void) {
    printf("before\n");
    fflush(stdout);
    CHECK(system("echo inside; exit 3") == 3 << 8);
    CHECK(system("kill -9 $$") == 9);
    CHECK(system("no-such-command 2>/dev/null") == 127 << 8);
    FILE *in = popen("printf 'a\\nb\\n' | sort -r", "r");
    char line[32];
    CHECK(in && fgets(line, sizeof line, in) && strcmp(line, "b\n") == 0);
    CHECK(fgets(line, sizeof line, in) && strcmp(line, "a\n") == 0 && !fgets(line, sizeof line, in));
    CHECK(pclose(in) == 0);
    FILE *out = popen("tr a-z A-Z", "w");
    CHECK(out && fputs("upper\n", out) >= 0 && pclose(out) == 0);
    printf("done\n");
    return 0;
}
