/* A defence in C: a picture's mean brightness. `make` builds it. */
#include "protocol.h"

static int64_t classify(const struct task *task, const uint8_t *picture) {
  uint64_t sum = 0;
  for (size_t at = 0; at < task->size; at++) sum += picture[at];
  return (int64_t)(sum * (uint64_t)task->classes / (256 * (uint64_t)task->size)); /* <- CHANGE THIS */
}

int main(void) { return serve(&(struct player){.name = "mine", .classify = classify}); }
