/* Each rank prints where it is; rank 0 checks that all are there and that a sum over them is right. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int rank, size, sum = 0, length;
  char node[MPI_MAX_PROCESSOR_NAME];

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(node, &length);
  printf("rank %d of %d on %s\n", rank, size, node);
  fflush(stdout);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("RESULT {\"ranks\": %d, \"sum\": %d}\n", size, sum);
  MPI_Finalize();
  return sum == size * (size - 1) / 2 ? 0 : 1;
}
