/* storebench by PMI-1, as a program of MPICH speaks it to Hydra: mpiexec.hydra -n N ranks ROUNDS.
   PMI_KVS_Get does not wait, so an exchange is put, barrier, gets. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { warm_up = 5 };
static FILE *out, *in;
static char line[4096];

static void fail(const char *what) {
    fprintf(stderr, "ranks: %s: %s\n", what, line);
    exit(1);
}

/* ask sends a line and reads the answer, which must begin with want. */
static void ask(const char *want, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    if (fflush(out) || !fgets(line, sizeof line, in) || strncmp(line, want, strlen(want)))
        fail(want);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void barrier(void) { ask("cmd=barrier_out", "cmd=barrier_in\n"); }

int main(int argc, char **argv) {
    const char *fd = getenv("PMI_FD"), *rank_text = getenv("PMI_RANK"), *size_text = getenv("PMI_SIZE");
    char kvs[256];
    if (argc != 2 || !fd || !rank_text || !size_text)
        fail("usage: mpiexec.hydra -n N ranks ROUNDS");
    int rounds = atoi(argv[1]), rank = atoi(rank_text), size = atoi(size_text);
    out = fdopen(atoi(fd), "w"), in = fdopen(atoi(fd), "r");
    if (!out || !in)
        fail("PMI_FD");
    ask("cmd=response_to_init", "cmd=init pmi_version=1 pmi_subversion=1\n");
    ask("cmd=my_kvsname", "cmd=get_my_kvsname\n");
    if (sscanf(line, "cmd=my_kvsname kvsname=%255s", kvs) != 1)
        fail("name");
    double start = 0, met, end;
    for (int i = 0; i < rounds + warm_up; i++) {
        if (i == warm_up)
            start = now();
        barrier();
    }
    met = now();
    for (int i = 0; i < rounds; i++) {
        ask("cmd=put_result rc=0", "cmd=put kvsname=%s key=%d/%d value=%064d\n", kvs, i, rank, rank);
        barrier();
        for (int other = 0; other < size; other++)
            ask("cmd=get_result rc=0", "cmd=get kvsname=%s key=%d/%d\n", kvs, i, other);
    }
    end = now();
    if (rank == 0)
        printf("%.0f %.0f\n", (met - start) / rounds, (end - met) / rounds);
    barrier();
    ask("cmd=finalize_ack", "cmd=finalize\n");
    return 0;
}
