// A reader between two neighbouring stores, among 5 threads.
#include "between_stores.h"

int main(void) {
    ALL(other, other, look, other, change);
    return 0;
}
