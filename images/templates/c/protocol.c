/* The image protocol, version 1, with nothing but the C library (schemas/protocol.md).
 *
 * A frame is `SPI1`, two little-endian 32-bit lengths, a JSON header and a payload of raw bytes. The header is checked
 * whole before anything is read from it, and a payload's length before memory is taken for it. What is no frame ends
 * the program with a word on standard error: there is no way to find the next frame. What is a frame that this player
 * cannot answer is answered by `fault`.
 */
#define _POSIX_C_SOURCE 200809L
#include "protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_LIMIT = 65536, DEPTH_LIMIT = 64, ROOM_FOR_A_LABEL = 24, LARGEST_PICTURE = 1 << 28 };

static const char OTHER_SIDE[] = "this player plays the other side";
static int questions, answers; /* the orchestrator's pipes, out of reach of printf */

static void stop(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

/* ---- JSON: values are pointers into the header's text, which `skip` has checked before. ---- */

static const char *space(const char *at) {
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
  return at;
}

static int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const char *skip_string(const char *at) {
  for (at++; *at != '"'; at++) {
    if ((unsigned char)*at < 0x20) return NULL; /* the end of the text, too */
    if (*at != '\\') continue;
    at++;
    if (*at == 'u') {
      for (int digit = 0; digit < 4; digit++)
        if (hexadecimal(*++at) < 0) return NULL;
    } else if (*at == '\0' || !strchr("\"\\/bfnrt", *at)) {
      return NULL;
    }
  }
  return at + 1;
}

static const char *skip_digits(const char *at) {
  if (*at < '0' || *at > '9') return NULL;
  while (*at >= '0' && *at <= '9') at++;
  return at;
}

static const char *skip_number(const char *at) {
  if (*at == '-') at++;
  at = *at == '0' ? at + 1 : skip_digits(at);
  if (at && *at == '.') at = skip_digits(at + 1);
  if (at && (*at == 'e' || *at == 'E')) {
    at++;
    if (*at == '+' || *at == '-') at++;
    at = skip_digits(at);
  }
  return at;
}

/* Returns what follows the value at `at`, or NULL when it is not JSON. */
static const char *skip(const char *at, int depth) {
  if (*at == '"') return skip_string(at);
  if (!strncmp(at, "true", 4) || !strncmp(at, "null", 4)) return at + 4;
  if (!strncmp(at, "false", 5)) return at + 5;
  if (*at != '{' && *at != '[') return skip_number(at);
  if (depth > DEPTH_LIMIT) return NULL;
  char closing = *at == '{' ? '}' : ']';
  at = space(at + 1);
  if (*at == closing) return at + 1;
  for (;;) {
    if (closing == '}') {
      if (*at != '"' || !(at = skip_string(at))) return NULL;
      at = space(at);
      if (*at != ':') return NULL;
      at = space(at + 1);
    }
    if (!(at = skip(at, depth + 1))) return NULL;
    at = space(at);
    if (*at == closing) return at + 1;
    if (*at != ',') return NULL;
    at = space(at + 1);
  }
}

/* Whether a JSON string says exactly `text`, which is ASCII. */
static int says(const char *value, const char *text) {
  if (!value || *value != '"') return 0;
  for (value++; *value != '"'; value++, text++) {
    int c = (unsigned char)*value;
    if (c == '\\') {
      static const char *escapes = "\"\\/bfnrt", *meant = "\"\\/\b\f\n\r\t";
      value++;
      if (*value == 'u') {
        c = 0;
        for (int digit = 0; digit < 4; digit++) c = 16 * c + hexadecimal(*++value);
      } else {
        c = meant[strchr(escapes, *value) - escapes];
      }
    }
    if (*text == '\0' || c != (unsigned char)*text) return 0;
  }
  return *text == '\0';
}

/* The value of a key; NULL when the object has no such key, or is none. */
static const char *member(const char *object, const char *key) {
  if (!object || *object != '{') return NULL;
  for (const char *at = space(object + 1); *at == '"';) {
    const char *value = space(space(skip_string(at)) + 1);
    if (says(at, key)) return value;
    at = space(skip(value, 0));
    if (*at == ',') at = space(at + 1);
  }
  return NULL;
}

/* Reads at most `most` integers of an array; returns how many there are, or -1 where it is no array of integers. */
static int64_t integers(const char *array, int64_t *into, int64_t most) {
  int64_t count = 0;
  if (!array || *array != '[') return -1;
  for (const char *at = space(array + 1); *at != ']'; count++) {
    char *end;
    int64_t value = strtoll(at, &end, 10);
    if (end == at || end != skip(at, 0)) return -1;
    if (count < most) into[count] = value;
    at = space(end);
    if (*at == ',') at = space(at + 1);
  }
  return count;
}

static int64_t integer(const char *value, int64_t otherwise) {
  char *end;
  if (!value) return otherwise;
  int64_t number = strtoll(value, &end, 10);
  return end == value || end != skip(value, 0) ? otherwise : number;
}

static int64_t items(const char *array) {
  int64_t count = 0;
  if (!array || *array != '[') return -1;
  for (const char *at = space(array + 1); *at != ']'; count++) {
    at = space(skip(at, 0));
    if (*at == ',') at = space(at + 1);
  }
  return count;
}

/* ---- Frames ---- */

/* Fills `data`. The end of standard input ends the program: the orchestrator has nothing more to ask. */
static void read_exactly(void *data, size_t size) {
  for (size_t have = 0; have < size;) {
    ssize_t got = read(questions, (char *)data + have, size - have);
    if (got == 0) exit(0);
    if (got > 0) have += (size_t)got;
    else if (errno != EINTR) stop("standard input cannot be read");
  }
}

static void write_exactly(const void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t put = write(answers, (const char *)data + done, size - done);
    if (put > 0) done += (size_t)put;
    else if (errno != EINTR) exit(1); /* nobody reads any more */
  }
}

static uint32_t little_endian(const uint8_t *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void send_frame(const char *header, const uint8_t *payload, size_t size) {
  size_t length = strlen(header);
  uint8_t prefix[12] = {'S', 'P', 'I', '1'};
  for (int byte = 0; byte < 4; byte++) {
    prefix[4 + byte] = (uint8_t)(length >> 8 * byte);
    prefix[8 + byte] = (uint8_t)(size >> 8 * byte);
  }
  write_exactly(prefix, sizeof prefix);
  write_exactly(header, length);
  write_exactly(payload, size);
}

/* Sends a header of at most 1023 bytes. Texts in it are ours: plain ASCII without quotes. */
static void say(const uint8_t *payload, size_t size, const char *format, ...) {
  char header[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(header, sizeof header, format, values);
  va_end(values);
  send_frame(header, payload, size);
}

static void fault(int64_t id, const char *text) {
  fprintf(stderr, "%s\n", text);
  say(NULL, 0, "{\"type\":\"fault\",\"id\":%lld,\"code\":\"unsupported\",\"text\":\"%s\"}", (long long)id, text);
}

/* ---- Questions ---- */

/* Reads `hello`; returns NULL, or why this player cannot play it. */
static const char *greet(const struct player *player, const char *header, struct task *task) {
  const char *told = member(header, "task"), *budget = member(told, "budget"), *epsilon = member(budget, "epsilon");
  int64_t shape[3], seed = integer(member(header, "seed"), -1);
  if (integer(member(header, "protocol"), 0) != 1) return "this player speaks protocol 1";
  if (says(member(header, "role"), "attack") ? !player->perturb : !player->classify) return OTHER_SIDE;
  if (integers(member(told, "shape"), shape, 3) != 3) return "task.shape is missing";
  task->size = 1;
  for (int axis = 0; axis < 3; axis++) {
    if (shape[axis] < 1 || shape[axis] > LARGEST_PICTURE / (int64_t)task->size) return "the pictures are too large";
    task->size *= (size_t)shape[axis];
  }
  task->channels = shape[0], task->height = shape[1], task->width = shape[2];
  task->classes = items(member(told, "classes"));
  task->l2 = says(member(budget, "norm"), "l2");
  task->epsilon = epsilon ? strtod(epsilon, NULL) : 0;
  task->seed = (uint64_t)seed;
  if (player->perturb && !(task->epsilon > 0)) return "task.budget is missing";
  if (task->classes < 1 || seed < 0) return "hello is incomplete";
  return player->load && player->load(task) ? "load failed" : NULL;
}

/* Sends a candidate for each picture as soon as it is made: what arrived in time counts. */
static void perturb(const struct player *player, const struct task *task, int64_t id, int64_t count,
                    const uint8_t *pixels, const int64_t *labels) {
  uint8_t *candidate = malloc(task->size);
  if (!candidate) stop("out of memory");
  for (int64_t place = 0; place < count; place++) {
    player->perturb(task, pixels + (size_t)place * task->size, labels ? labels[place] : -1, candidate);
    say(candidate, task->size,
        "{\"type\":\"candidates\",\"id\":%lld,\"index\":[%lld],\"dtype\":\"u8\",\"shape\":[1,%lld,%lld,%lld]}",
        (long long)id, (long long)place, (long long)task->channels, (long long)task->height, (long long)task->width);
  }
  free(candidate);
}

static void classify(const struct player *player, const struct task *task, int64_t id, int64_t count,
                     const uint8_t *pixels) {
  char header[HEADER_LIMIT + 1];
  int used = snprintf(header, sizeof header, "{\"type\":\"answers\",\"id\":%lld,\"labels\":[", (long long)id);
  for (int64_t place = 0; place < count; place++) {
    int64_t label = player->classify(task, pixels + (size_t)place * task->size);
    size_t room = sizeof header - (size_t)used;
    if (room < ROOM_FOR_A_LABEL || label >= task->classes) {
      fault(id, label >= task->classes ? "a label beyond the classes" : "more labels than a header holds");
      return;
    }
    if (label < 0) used += snprintf(header + used, room, "%snull", place ? "," : "");
    else used += snprintf(header + used, room, "%s%lld", place ? "," : "", (long long)label);
  }
  strcpy(header + used, "]}");
  send_frame(header, NULL, 0);
}

/* Answers one question about pictures, whose payload is still to be read. */
static void answer(const struct player *player, const struct task *task, const char *header, int64_t id,
                   uint32_t size) {
  int64_t shape[4];
  const char *given = member(header, "labels");
  int attacking = says(member(header, "type"), "perturb");
  if (integers(member(header, "shape"), shape, 4) != 4 || shape[0] < 1 || shape[0] > UINT32_MAX ||
      shape[1] != task->channels || shape[2] != task->height || shape[3] != task->width)
    stop("the pictures are not of the task's shape");
  if ((uint64_t)shape[0] * task->size != size) stop("the payload is not as long as its shape says");
  uint8_t *pixels = malloc(size);
  int64_t *labels = NULL;
  if (!pixels) stop("out of memory");
  read_exactly(pixels, size);
  if (attacking && given && *given == '[') {
    labels = calloc((size_t)shape[0], sizeof *labels);
    if (!labels || integers(given, labels, shape[0]) != shape[0]) stop("not a label for each picture");
  }
  if (attacking ? !player->perturb : !player->classify) fault(id, OTHER_SIDE);
  else if (attacking) perturb(player, task, id, shape[0], pixels, labels);
  else classify(player, task, id, shape[0], pixels);
  free(labels);
  free(pixels);
}

/* What prints must not print between the frames: standard output becomes the log, and standard input is empty. */
static void take_pipes(void) {
  int nothing = open("/dev/null", O_RDONLY);
  questions = fcntl(0, F_DUPFD_CLOEXEC, 3);
  answers = fcntl(1, F_DUPFD_CLOEXEC, 3);
  if (questions < 0 || answers < 0 || dup2(2, 1) < 0) stop("there are no pipes to play through");
  if (nothing >= 0) dup2(nothing, 0), close(nothing);
  signal(SIGPIPE, SIG_IGN);
}

int serve(const struct player *player) {
  static char header[HEADER_LIMIT + 1];
  struct task task = {0};
  take_pipes();
  for (;;) {
    uint8_t prefix[12];
    read_exactly(prefix, sizeof prefix);
    if (memcmp(prefix, "SPI1", 4)) stop("standard input is not the image protocol");
    uint32_t length = little_endian(prefix + 4), size = little_endian(prefix + 8);
    if (length > HEADER_LIMIT) stop("a header of more than 65,536 bytes");
    read_exactly(header, length);
    header[length] = '\0';
    const char *object = space(header), *end = *object == '{' ? skip(object, 1) : NULL;
    if (!end || space(end) != header + length) stop("a header is not one JSON object");
    const char *type = member(object, "type");
    int64_t id = integer(member(object, "id"), -1);
    if (id < 0) stop("a question without an id");
    if (says(type, "bye")) return 0;
    if ((says(type, "perturb") || says(type, "classify")) && task.size) {
      answer(player, &task, object, id, size);
    } else if (size) {
      stop("a payload where none belongs");
    } else if (says(type, "hello")) {
      const char *wrong = greet(player, object, &task);
      if (wrong) task.size = 0, fault(id, wrong);
      else say(NULL, 0, "{\"type\":\"ready\",\"id\":%lld,\"name\":\"%s\",\"gives\":[%s]}", (long long)id,
               player->name, player->classify ? "\"label\"" : "");
    } else {
      fault(id, "a question that this player does not answer");
    }
  }
}
