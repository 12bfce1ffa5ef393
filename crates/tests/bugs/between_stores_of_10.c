// A reader between two neighbouring stores, among 10 threads.
#include "between_stores.h"

int main(void) {
    ALL(other, other, other, other, other, look, other, other, other, change);
    return 0;
}
