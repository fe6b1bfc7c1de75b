/* An attack in C: random signs at the edge of the budget. `make` builds it. */
#include <math.h>

#include "protocol.h"

/* Returns the next of a row of random numbers (splitmix64). */
static uint64_t next(uint64_t *chance) {
  uint64_t mixed = *chance += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return mixed ^ mixed >> 31;
}

static void perturb(const struct task *task, const uint8_t *picture, int64_t label, uint8_t *candidate) {
  int reach = (int)fmin(255, floor(task->l2 ? task->epsilon / sqrt((double)task->size) : task->epsilon));
  uint64_t chance = task->seed; /* the same picture gets the same chance */
  for (size_t at = 0; at < task->size; at++) chance = (chance ^ picture[at]) * 0x100000001b3u;
  (void)label;
  for (size_t at = 0; at < task->size; at++) {
    int wanted = picture[at] + (next(&chance) & 1 ? reach : -reach); /* <- CHANGE THIS */
    candidate[at] = (uint8_t)(wanted < 0 ? 0 : wanted > 255 ? 255 : wanted);
  }
}

int main(void) { return serve(&(struct player){.name = "mine", .perturb = perturb}); }
