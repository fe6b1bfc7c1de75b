/* A player in C: fill in a `struct player` and serve it. The protocol is in protocol.c. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

/* What is played for, as `hello` said it. */
struct task {
  int64_t classes;           /* labels are 0 to classes - 1 */
  int64_t channels, height, width;
  size_t size;               /* bytes of one picture: channels x height x width */
  int l2;                    /* the budget's norm: 1 for l2, 0 for linf */
  double epsilon;            /* the budget, in steps of 1/255 */
  uint64_t seed;             /* an attack's chance starts from here; a defence must not use it */
};

/* What the player does; of perturb and classify it has one. Pictures are `task->size` bytes, channel by channel, row by
 * row. What these functions print goes to the log. */
struct player {
  const char *name;
  /* Optional: whatever takes long. Returns 0, or anything else when it failed. */
  int (*load)(const struct task *task);
  /* Writes a candidate for the picture. The label is the true one, or -1 where the contest hides it. */
  void (*perturb)(const struct task *task, const uint8_t *picture, int64_t label, uint8_t *candidate);
  /* Returns the picture's label, or -1 to abstain. */
  int64_t (*classify)(const struct task *task, const uint8_t *picture);
};

/* Answers the orchestrator's questions until it says `bye` or closes standard input. Returns the exit status. */
int serve(const struct player *player);

#endif
