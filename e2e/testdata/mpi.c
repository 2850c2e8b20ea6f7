/* What tests of MPI run: the first argument says what it does; with a second it
   does not call MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* MPICH before 4.2 with UCX may hang in MPI_Finalize between hosts, under any launcher: a rank
   waits there for another to take note of its last messages, while that one waits for it in
   PMI. Who is told to leaves instead. */
static void leave(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  fflush(stdout);
  usleep(300000);
  _exit(0);
}

static void allreduce(void) {
  long mine = rank + 1, sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d: sum %ld\n", rank, sum);
}

static void ring(void) {
  int token = 0;
  if (rank > 0)
    MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  token += rank;
  MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("ring: %d\n", token);
  }
}

static void pi(void) {
  long i, n = 1000000;
  double sum = 0, all;
  MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  for (i = rank; i < n; i += size) {
    double x = (i + .5) / n;
    sum += 4 / (1 + x * x) / n;
  }
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("pi: %.6f\n", all);
}

static void split(void) {
  MPI_Comm host;
  int r, n;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &r);
  MPI_Comm_size(host, &n);
  printf("rank %d: %d of %d on its host\n", rank, r, n);
}

static void number(void) {
  int *app, flag;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &flag);
  printf("rank %d: program %d\n", rank, flag ? *app : -1);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "hello";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!strcmp(what, "hello"))
    printf("rank %d of %d\n", rank, size);
  else if (!strcmp(what, "allreduce"))
    allreduce();
  else if (!strcmp(what, "ring"))
    ring();
  else if (!strcmp(what, "pi"))
    pi();
  else if (!strcmp(what, "split"))
    split();
  else if (!strcmp(what, "number"))
    number();
  else if (!strcmp(what, "abort") && rank == size - 1)
    MPI_Abort(MPI_COMM_WORLD, 7);
  else if (!strcmp(what, "quit") && rank == size - 1) {
    usleep(500000); /* the others are done with MPI_Init */
    _exit(0);
  }
  if (argc > 2)
    leave();
  MPI_Finalize();
  return 0;
}
