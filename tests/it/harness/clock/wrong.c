/* What time is it, so much later? The file that WEIR_TEST_CLOCK names holds by
   how many microseconds the wall clock is off; the monotonic clock is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *off;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("WEIR_TEST_CLOCK"), O_RDONLY);
    off = mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
}

static int64_t now(clockid_t clock) {
    static int (*real)(clockid_t, struct timespec *);
    struct timespec at;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    real(clock, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec
        + (clock == CLOCK_REALTIME && off && off != MAP_FAILED ? *off * 1000 : 0);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int64_t nanos = now(clock);
    at->tv_sec = nanos / 1000000000;
    at->tv_nsec = nanos % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    int64_t nanos = now(CLOCK_REALTIME);
    (void)zone;
    at->tv_sec = nanos / 1000000000;
    at->tv_usec = nanos / 1000 % 1000000;
    return 0;
}
