// relive: link=pie,static
// Text in the C library: wide characters, locale C, long double printing, qsort, regex, strtod.
#include "check.h"
#include <locale.h>
#include <math.h>
#include <regex.h>
#include <wchar.h>
#include <wctype.h>

static int down(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

int main(void) {
    CHECK(setlocale(LC_ALL, "C") != NULL);
    wchar_t wide[64];
    CHECK(swprintf(wide, 64, L"%ls-%d-%.3f", L"wide", 42, 2.5) == 13 && wcscmp(wide, L"wide-42-2.500") == 0);
    CHECK(wcstol(L"-123xyz", NULL, 10) == -123 && towupper(L'q') == L'Q' && wcslen(wide) == 13);
    char text[128];
    snprintf(text, sizeof text, "%.30Lf|%La|%Lg", 1.0L / 3, 1.5L, 1e4000L);
    CHECK(strcmp(text, "0.333333333333333333342368351437|0xcp-3|1e+4000") == 0);
    snprintf(text, sizeof text, "%.17g|%a|%5.2f|%e|%x|%#o|%+d|%s", 0.1, 0.1, 3.14159, 12345.678, 255u, 8u, 5, "end");
    CHECK(strcmp(text, "0.10000000000000001|0x1.999999999999ap-4| 3.14|1.234568e+04|ff|010|+5|end") == 0);
    CHECK(strtod("1e-320", NULL) > 0 && isinf(strtod("1e999", NULL)) && strtold("0x1p-3", NULL) == 0.125L);
    for (int i = -300; i < 300; i += 7) {
        snprintf(text, sizeof text, "%.17g", ldexp(1.1, i));
        CHECK(strtod(text, NULL) == ldexp(1.1, i));
    }
    double values[2000];
    unsigned seed = 7;
    for (int i = 0; i < 2000; i++) values[i] = (double)((seed = seed * 1664525 + 1013904223) >> 8) / 1000;
    qsort(values, 2000, sizeof *values, down);
    for (int i = 1; i < 2000; i++) CHECK(values[i - 1] >= values[i]);
    regex_t regex;
    regmatch_t match[3];
    CHECK(regcomp(&regex, "([a-z]+)[0-9]{2,4}-(x|yy)$", REG_EXTENDED) == 0);
    CHECK(regexec(&regex, "  abc123-yy", 3, match, 0) == 0 && match[1].rm_so == 2 && match[1].rm_eo == 5 && match[2].rm_so == 9);
    CHECK(regexec(&regex, "abc1-yy", 0, NULL, 0) == REG_NOMATCH);
    regfree(&regex);
    return ok();
}
