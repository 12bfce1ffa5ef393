// A reader between two neighbouring stores, among 3 threads.
#include "between_stores.h"

int main(void) {
    ALL(other, look, change);
    return 0;
}
