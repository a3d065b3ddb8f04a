/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * berth.h: the C ABI of libberth.
 *
 * Rules of this header: fixed-width types only; every struct that a caller fills begins with
 * struct_size; every function returns a status (int32_t, see berth_status_code) and reports
 * results through out-parameters; handles are opaque; nothing here allocates on behalf of the
 * caller except *_create, and nothing frees memory of the caller. No function prints, aborts,
 * throws across this boundary, reads a clock or installs a signal handler. An object must not be
 * used by two threads at once; different objects are independent.
 */
#ifndef BERTH_BERTH_H
#define BERTH_BERTH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BERTH_API __attribute__((visibility("default")))
#else
#define BERTH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change that breaks a caller compiled against an older header. */
#define BERTH_ABI_VERSION 1

enum berth_status_code {
  BERTH_OK = 0,
  BERTH_E_ARGUMENT = 1,   /* null pointer, wrong struct_size, value out of its range */
  BERTH_E_EXHAUSTED = 2,  /* no free slot: a result, never a fault */
  BERTH_E_ALREADY = 3,    /* the id already holds a slot; state unchanged */
  BERTH_E_NOT_FOUND = 4,  /* unknown id, or released before; state unchanged */
  BERTH_E_STALE = 5,      /* the handle's generation has passed; state unchanged */
  BERTH_E_MEMORY = 6,     /* the allocator refused */
  BERTH_E_CAPACITY = 7,   /* the output array of the caller is too small; nothing was written */
  BERTH_E_STATE = 8,      /* the call is not legal in the object's present state */
  BERTH_E_SKIPPED = 9,    /* all-or-nothing batch: another item failed, so this one was undone or not tried */
  BERTH_E_ROW = 10,       /* a row isn't fit to be scheduled: the schedule record says which row and which field */
  BERTH_E_PENDING = 11,   /* what the call needs is on its way: a ticket says when to try again */
  BERTH_E_MISSING = 12,   /* pages were lost on the way: the sequence is shorter now and has to be computed on */
  BERTH_E_IO = 13         /* the operating system refused; errno beside it */
};

/* Version of this ABI (BERTH_ABI_VERSION) that the library was built with. */
BERTH_API int32_t berth_abi_version(void);
/* First 64 bits of the SHA-256 of this header's text at build time; compared at load. */
BERTH_API int64_t berth_build_id(void);
/* Static, immutable, NUL-terminated English text of a status; never null. */
BERTH_API const char *berth_status_text(int32_t status);

/* ------------------------------------------------------------------------------------------
 * Slots: seats and leases. Capacity is fixed at creation. Slots [0, capacity) are handed out,
 * lowest free first; slots [capacity, capacity + reserved) have stable numbers and are never
 * handed out (padding requests live there). A handle is (generation << 32 | slot); the
 * generation of a slot grows with every acquire, so a handle that was released is STALE.
 * ---------------------------------------------------------------------------------------- */

typedef struct berth_slots *berth_slots_t;

enum berth_batch_mode {
  BERTH_ALL_OR_NOTHING = 0, /* the first item that fails undoes the batch; statuses say which */
  BERTH_EACH = 1            /* every item on its own; statuses[i] is the outcome of item i */
};

typedef struct berth_slots_config {
  uint32_t struct_size;  /* sizeof(berth_slots_config) */
  int32_t capacity;      /* 1 .. 2^20 */
  int32_t reserved;      /* 0 .. 2^20 */
  int32_t quarantine;    /* 1: a released slot is reusable once berth_slots_complete(its fence) */
} berth_slots_config;

typedef struct berth_slots_stats {
  uint32_t struct_size;
  int32_t capacity;
  int32_t reserved;
  int32_t used;         /* held by an id */
  int32_t quarantined;  /* released, fence not complete */
  int32_t free;         /* capacity - used - quarantined */
  int32_t high_water;   /* largest used so far */
  int32_t padding;
} berth_slots_stats;

/* *out is written only on BERTH_OK. */
BERTH_API int32_t berth_slots_create(const berth_slots_config *config, berth_slots_t *out);
/* Null is refused with BERTH_E_ARGUMENT. The handle is dead afterwards. */
BERTH_API int32_t berth_slots_destroy(berth_slots_t slots);
/*
 * Gives each of ids[n] the lowest free slot, in order. handles[n] and statuses[n] are written
 * (handles[i] = 0 where statuses[i] != BERTH_OK). Item outcomes: OK, ALREADY, EXHAUSTED, SKIPPED.
 * Returns the first item's outcome that isn't OK, else OK; in mode EACH always OK.
 * now: the caller's clock, any unit; kept for berth_slots_sweep.
 */
BERTH_API int32_t berth_slots_acquire(berth_slots_t slots, const uint64_t *ids, int32_t n, int32_t mode,
                                      uint64_t now, uint64_t *handles, int32_t *statuses);
/* Outcomes: OK, NOT_FOUND (handles[i] = 0). Returns OK. */
BERTH_API int32_t berth_slots_find(berth_slots_t slots, const uint64_t *ids, int32_t n, uint64_t *handles,
                                   int32_t *statuses);
/* Outcomes: OK, STALE, NOT_FOUND (a number that was never a handle). Sets last-use to now. Returns OK. */
BERTH_API int32_t berth_slots_touch(berth_slots_t slots, const uint64_t *handles, int32_t n, uint64_t now,
                                    int32_t *statuses);
/* Outcomes: OK, STALE, NOT_FOUND, SKIPPED. fence: see quarantine; ignored without it. */
BERTH_API int32_t berth_slots_release(berth_slots_t slots, const uint64_t *handles, int32_t n, int32_t mode,
                                      uint64_t fence, int32_t *statuses);
/* As berth_slots_release, by id. Outcomes: OK, NOT_FOUND, SKIPPED. */
BERTH_API int32_t berth_slots_release_ids(berth_slots_t slots, const uint64_t *ids, int32_t n, int32_t mode,
                                          uint64_t fence, int32_t *statuses);
/* Everything with fence <= epoch leaves quarantine. *reusable: how many did. Epochs never go back. */
BERTH_API int32_t berth_slots_complete(berth_slots_t slots, uint64_t epoch, int32_t *reusable);
/*
 * Releases what was last used strictly more than idle before now; writes the ids in slot order.
 * BERTH_E_CAPACITY (nothing released, *count = the number needed) if they don't fit.
 */
BERTH_API int32_t berth_slots_sweep(berth_slots_t slots, uint64_t now, uint64_t idle, uint64_t fence, uint64_t *ids,
                                    int32_t capacity, int32_t *count);
/*
 * Copy rows of a batch, in request order with beams innermost (spec 03 section 2.2): request i < contexts gives one
 * row slot*width; i >= contexts gives beam rows slot*width + j, or slot*width each when replicate.
 * 0 <= contexts <= n; 1 <= beam <= width unless replicate. BERTH_E_CAPACITY if rows is too small, nothing written.
 * A handle that isn't live: its status (STALE, NOT_FOUND), nothing written.
 */
BERTH_API int32_t berth_slots_rows(berth_slots_t slots, const uint64_t *handles, int32_t n, int32_t contexts,
                                   int32_t beam, int32_t width, int32_t replicate, int32_t *rows, int32_t capacity,
                                   int32_t *count);
BERTH_API int32_t berth_slots_describe(berth_slots_t slots, berth_slots_stats *out);

/* ------------------------------------------------------------------------------------------
 * Rank core: one per rank. It owns the request table, the seats, the leases, the KV cache and the
 * tokens of its rank, and makes one iteration in three calls: schedule, launch, settle. Inputs
 * and outputs travel in memory that the core owns and the caller maps once (berth_core_memory),
 * so the calls carry no pointers.
 *
 * Tokens: row r has int32_t[token_stride] of the token arena, prompt and output one after another.
 * The caller writes a prompt there before the schedule that admits it (the i-th entry of the admit
 * inbox gets the i-th of the free rows); the core appends what the caller reports as sampled. A
 * request without tokens shares nothing: its pages are found by nobody.
 * ---------------------------------------------------------------------------------------- */

typedef struct berth_core *berth_core_t;
typedef struct berth_kv *berth_kv_t;
struct berth_kv_config;
struct berth_kv_buffer;
struct berth_kv_batch;

/* spec 01 section 1; the numeric order is the contract. */
enum berth_request_state {
  BERTH_STATE_TRANSFER_ERROR = -1,
  BERTH_STATE_UNKNOWN = 0,
  BERTH_STATE_ENCODER_INIT = 1,
  BERTH_STATE_CONTEXT_WAIT_SCHEDULER = 7,
  BERTH_STATE_GENERATION_INIT = 8,
  BERTH_STATE_GENERATION_TRANSFER = 9,
  BERTH_STATE_CONTEXT_INIT = 10,
  BERTH_STATE_CONTEXT_INIT_AND_TRANSFER = 11,
  BERTH_STATE_GENERATION_TRANSFER_COMPLETE = 12,
  BERTH_STATE_GENERATION = 13,
  BERTH_STATE_RETIRING = 14,
  BERTH_STATE_COMPLETE = 20,
  BERTH_STATE_CONTEXT_TRANSFER = 21,
  BERTH_STATE_CONTEXT_COMPLETE = 22,
  BERTH_STATE_WAIT_TOKENS = 23
};

enum berth_row_flag {
  BERTH_ROW_DUMMY = 1,      /* padding request: counts in the batch, in nothing else */
  BERTH_ROW_CANCELLED = 2,  /* leaves as soon as no launched batch holds it */
  BERTH_ROW_FINISHED = 4,   /* result known, a launched batch still holds it */
  BERTH_ROW_LIVE = 8,
  BERTH_ROW_CHECKED = 16,         /* set by the check of a row, cleared by whoever writes the row */
  BERTH_ROW_ENCODER_PENDING = 32, /* a context whose encoder output isn't ready */
  BERTH_ROW_MULTIMODAL = 64,      /* a generation that can't be recomputed from its tokens */
  BERTH_ROW_STAYS = 128,          /* never gives way: it has its pages up to its last token, whatever the policy */
  BERTH_ROW_HELD = 256,           /* keeps what it has and isn't scheduled: its output isn't read fast enough */
  BERTH_ROW_ENCODER_RUNNING = 512 /* its encoder was started */
};

/* Why a request that could have run did not (kept in the row, counted per iteration). */
enum berth_wait_reason {
  BERTH_WAIT_NONE = 0,
  BERTH_WAIT_SEAT = 1,
  BERTH_WAIT_LEASE = 2,
  BERTH_WAIT_PAGES = 3,
  BERTH_WAIT_TOKENS = 4,
  BERTH_WAIT_BATCH = 5,      /* the batch is full */
  BERTH_WAIT_TRANSFER = 6,   /* its KV is on the way */
  BERTH_WAIT_GATE = 7,       /* a gate holds the fleet */
  BERTH_WAIT_IN_FLIGHT = 8,  /* pipeline: its micro-batch hasn't come back */
  BERTH_WAIT_RETIRING = 9,
  BERTH_WAIT_ADAPTER = 10,   /* device pages for its adapter */
  BERTH_WAIT_PREFIX = 11,    /* another request is computing the prefix that it will share */
  BERTH_WAIT_ENCODER = 12,   /* its encoder hasn't run, or its output isn't ready */
  BERTH_WAIT_READER = 13,    /* nobody reads its output */
  BERTH_WAIT_REASONS = 14
};

/* Where an empty rank is padded so that the fleet can go on (spec 01 section 7). */
enum berth_padding {
  BERTH_PAD_NONE = 0,   /* without attention DP a rank asks only itself */
  BERTH_PAD_BEFORE = 1, /* before scheduling: the pipeline loop */
  BERTH_PAD_BOTH = 2    /* before and after */
};

/* What a dummy does (spec 01 section 7.1). Its pages are those of so many tokens. */
enum berth_dummy_role {
  BERTH_DUMMY_GENERATION = 0, /* a token and its drafts */
  BERTH_DUMMY_CONTEXT = 1     /* a prompt of one token: where requests end with their first token */
};

/* What counts as work when a rank is padded before scheduling (spec 01 section 7.1). */
enum berth_pad_count {
  BERTH_PAD_ACTIVE = 0,    /* all that is active: where no KV is received */
  BERTH_PAD_KV_HERE = 1,   /* all but states 8 and 9 */
  BERTH_PAD_SCHEDULABLE = 2 /* states that can be scheduled: neither who waits for the scheduler nor who retires */
};

/* How a rank's state counts requests in state 14 (spec 01 section 2.1). */
enum berth_retiring {
  BERTH_RETIRING_CHARGED = 0,                 /* as everybody else */
  BERTH_RETIRING_EXCLUDED = 1,                /* in neither routable count */
  BERTH_RETIRING_EXCLUDED_TOKENS_CHARGED = 2  /* their tokens still count: how the published run was made */
};

/* How contexts share the token budget (spec 02 section 6). */
enum berth_chunking {
  BERTH_CHUNK_NONE = 0,
  BERTH_CHUNK_FCFS = 1,           /* first come, first served */
  BERTH_CHUNK_EQUAL_PROGRESS = 2, /* a unit each, round after round */
  BERTH_CHUNK_FORCE = 3           /* up to the next snapshot point, even where everything fits */
};

/* Hot row, 64 bytes: all that scheduling reads of a generation; of a context it reads the side row too. */
typedef struct berth_row {
  uint64_t request_id;
  int32_t state;             /* berth_request_state */
  uint32_t flags;            /* berth_row_flag */
  int32_t prompt_tokens;
  int32_t context_cursor;    /* context tokens whose forward was launched */
  int32_t context_chunk;     /* context tokens in the batch being built */
  int32_t generated_tokens;  /* tokens whose result was settled */
  int32_t pending_tokens;    /* tokens launched, result not settled */
  int32_t max_new_tokens;
  int32_t seat;              /* -1: none */
  int32_t lease;             /* -1: none */
  int32_t adapter;           /* number of its LoRA adapter; -1: none */
  int16_t in_flight;         /* launched batches that hold the row */
  int16_t beam_width;        /* of this iteration, >= 1 */
  int16_t wait_reason;       /* of the last schedule: berth_wait_reason | pool << 8 (a pool for PAGES only) */
  int16_t draft_tokens;
  int32_t cached_tokens;     /* prompt tokens found in the prefix cache: the cursor stands here <=> first chunk */
} berth_row;

/* Side row, 64 bytes: what scheduling reads of contexts, encoder requests and, one loop only, caches. */
typedef struct berth_side_row {
  uint64_t first_block;       /* key of the first block that the request would newly contribute; 0: none */
  uint64_t cross_first_block; /* the same in the cross cache */
  double priority;            /* order of the active list: higher first, then earlier */
  int32_t reusable_tokens;    /* prompt tokens that a cache match is expected to save */
  int32_t encoder_tokens;     /* encoder output length; state ENCODER_INIT */
  int32_t snapshot_first;     /* snapshot points: [first, first + count) of the snapshot arena */
  int32_t snapshot_count;
  int32_t cache_tokens;       /* one loop: tokens that its pages hold; -1: no cache */
  int32_t cache_active;       /* one loop: 0 suspended, 1 resident */
  int32_t prepare_tokens;     /* one loop: prompt tokens that the first prepare finds cached */
  int32_t padding[3];
} berth_side_row;

/* Pages that a row needs of one pool, before the credit is taken off. 16 bytes. */
typedef struct berth_demand {
  int32_t remaining;  /* to its last token (spec 02 section 4.1) */
  int32_t one_step;   /* for the next step (spec 02 section 4.2) */
  int32_t two_step;   /* for the next two */
  int32_t credit;     /* reusable pages that somebody refers to (spec 02 section 4.4) */
} berth_demand;

/* Pages that a row holds in one pool: page ids [first, first + count) of the held arena, or first = -1: count of its own. */
typedef struct berth_held {
  int32_t first;
  int32_t count;
} berth_held;

/* Cold row, 64 bytes. */
typedef struct berth_cold_row {
  uint64_t tag;           /* the caller's, returned with the request */
  uint64_t admission;     /* 1, 2, 3 ... in order of admission on this rank; never reused */
  uint64_t seat_handle;
  uint64_t lease_handle;
  int64_t admitted_at;    /* iteration of admission */
  int32_t load_tokens;    /* what the rank state charges */
  int32_t deferrals;      /* iterations in which it could have run and did not */
  int32_t children;       /* as admitted */
  int32_t pages;          /* pages that it holds or was promised, of all pools */
  int32_t paused_tokens;  /* output tokens that became prompt when it was paused */
  int32_t pauses;
} berth_cold_row;

/* Inbox: a request to put on this rank. 72 bytes. */
typedef struct berth_admit {
  uint64_t request_id;
  uint64_t tag;
  int32_t state;           /* CONTEXT_INIT or GENERATION_INIT */
  int32_t prompt_tokens;   /* >= 1 */
  int32_t max_new_tokens;  /* >= 1 */
  int32_t load_tokens;
  int32_t cached_tokens;   /* that somebody else found; 0 where the core's own cache looks */
  int32_t children;        /* further sequences of the request; -k: this is the k-th of them */
  int32_t tokens;          /* 1: the prompt's tokens are in the arena */
  int32_t scope;           /* bit 0: lora is meant, bit 1: salt is. Nothing is shared across scopes */
  uint64_t lora;
  uint64_t salt;
  int32_t encoder_tokens;  /* a context's encoder input, computed before its prompt; 0: none */
  int32_t padding;
} berth_admit;

enum berth_change_kind {
  BERTH_CHANGE_ARRIVED = 1,  /* state 9 -> 12: the KV is here; state 21 -> 22: it is where it was to go, the request ends */
  BERTH_CHANGE_FAILED = 2,   /* state 9 or 21 -> -1 */
  BERTH_CHANGE_CANCEL = 3,   /* a row in state 9 or 21 leaves when its transfer is over */
  BERTH_CHANGE_HOLD = 4,     /* the row isn't scheduled */
  BERTH_CHANGE_RESUME = 5,   /* until now */
  BERTH_CHANGE_ENCODED = 6   /* its encoder's output is here */
};

/* Inbox: what happened to a row since the last iteration. Ignored (and counted) if request_id isn't the row's. */
typedef struct berth_change {
  uint64_t request_id;
  int32_t row;
  int32_t kind;
  int32_t token;             /* ARRIVED in state 9: the first output token, if it is known, else -1 */
  int32_t zero;
} berth_change;

/* Outbox: a request that left. 32 bytes. */
enum berth_end_kind { BERTH_END_FINISHED = 1, BERTH_END_CANCELLED = 2, BERTH_END_FAILED = 3 };
typedef struct berth_done {
  uint64_t request_id;
  uint64_t tag;
  int32_t row;
  int32_t kind;
  int32_t generated_tokens;
  int32_t deferrals;
} berth_done;

/* What came of a batch position, bits of the result array; 0: a token, and the sequence goes on. */
enum berth_result {
  BERTH_RESULT_STOP = 1,   /* the sequence ends with this token */
  BERTH_RESULT_VOID = 2,   /* nothing: no token, the row stays as it is */
  BERTH_RESULT_FAILED = 4  /* the request ends as FAILED, without this token */
};

enum berth_entry_kind { BERTH_ENTRY_CONTEXT = 1, BERTH_ENTRY_GENERATION = 2, BERTH_ENTRY_DUMMY = 3 };

/* One batch position. 16 bytes. */
typedef struct berth_entry {
  int32_t row;
  int32_t kind;
  int32_t tokens;    /* context: chunk; generation: 1 + drafts; dummy: 1 */
  int32_t position;  /* first token's position in the sequence */
} berth_entry;

typedef struct berth_core_config {
  uint32_t struct_size;
  int32_t rows;               /* request table, 1 .. 2^20, the dummy's row not counted */
  int32_t seats;
  int32_t leases;
  int32_t reserved_leases;
  int32_t max_batch_size;     /* B: batch positions */
  int32_t max_num_tokens;     /* a batch; 0: no limit */
  int32_t draft_tokens;
  int32_t admission_cap;      /* K, for padding after scheduling */
  int32_t max_resident;       /* requests that may hold KV; INIT waits beyond */
  int32_t range_end;          /* schedulable = state in [10, range_end) */
  int32_t pending_batches;    /* batches launched before the oldest is settled: 0, 1 (overlap) or pp - 1 */
  int32_t exclusive_flight;   /* 1: a row in a launched batch isn't scheduled again (pipeline) */
  int32_t mark_retiring;      /* 1: state 14 is set on this stage */
  int32_t retiring;           /* berth_retiring: how the rank state counts retirees */
  int32_t padding;            /* berth_padding */
  int32_t transceiver;        /* 1: requests may receive their KV */
  int32_t chunking;           /* berth_chunking */
  int32_t tokens_per_block;   /* page size in tokens, >= 1 */
  int32_t max_seq_len;        /* longest sequence, prompt and output, in tokens; 0: no limit */
  int64_t pages;              /* without a cache of its own: pages of this rank, only counted; -1: not limited */
  int32_t policy_set;         /* berth_policy_set */
  int32_t capacity;           /* berth_capacity_policy; all but MAX_UTILIZATION promise pages to the end */
  int32_t pause;              /* berth_pause */
  int32_t prefix_sharing;     /* 1: a context waits while another one computes the block that it lacks next */
  int32_t one_loop;           /* 1: the one loop (spec 02 section 9) decides; MAX_UTILIZATION only */
  int32_t selects;            /* 1: the caller does: berth_core_begin and berth_core_select, no berth_core_schedule */
  int32_t pad_count;          /* berth_pad_count */
  int32_t sends;              /* 1: who comes to its output limit keeps its KV, in state 21, until it was sent */
} berth_core_config;

/* What becomes of the pages of a request that gives way (MAX_UTILIZATION). Its tokens become its prompt, and what is
 * still there when it comes back isn't computed again. */
enum berth_pause {
  BERTH_PAUSE_RECOMPUTE = 0, /* blocks that are in the index stay there until their room is needed */
  BERTH_PAUSE_SUSPEND = 1    /* all that was computed goes there, the block begun too */
};

/*
 * The iteration record, in core memory. "in" fields are written by the caller before the call that reads them, the
 * others by the core.
 */
typedef struct berth_iteration {
  int64_t number;           /* iterations completed */
  /* in, for schedule */
  int32_t expected;         /* E of the router: padding needs E > 0 */
  int32_t admits;           /* entries of the admit inbox */
  int32_t changes;          /* entries of the change inbox */
  int32_t filling;          /* 1: benchmark fill, no padding */
  int32_t dummy_role;       /* berth_dummy_role of a dummy that is placed in this iteration */
  /* in, for launch */
  int32_t can_queue;        /* the fleet's vote */
  int32_t held;             /* 1: a gate holds the forward: nothing is launched and nothing settled */
  int32_t contexts_held;    /* 1: no context runs: they leave the batch, and what they took goes back */
  int32_t encode;           /* 1: encoders of all that wait for theirs are started */
  /* out of schedule; launch takes contexts that are held out of them */
  int32_t batch;            /* entries, the dummy included */
  int32_t contexts;
  int32_t generations;      /* the dummy included */
  int32_t real;             /* entries that are requests */
  int32_t batch_tokens;
  int32_t padded;           /* this rank got a dummy: 1 before scheduling, 2 after it; 0: none */
  int32_t pad_short;        /* 1: it needed one, and the pages of the whole of it weren't free */
  int32_t stuck;            /* 1: requests wait for their KV to be asked for, none fits, and nothing here will make room */
  int32_t encoder_items;    /* requests whose encoder hasn't been started */
  int32_t resident;         /* requests on this rank after admission, the dummy not counted */
  int32_t receives;         /* entries of the receive outbox: rows that moved 8 -> 9 */
  int32_t stale_changes;    /* changes whose request had left */
  int32_t deferred[16];     /* by berth_wait_reason */
  int32_t paused;           /* requests that gave way */
  int32_t short_of_pages;   /* rows of the plan that found no page in spite of it: 0 but for a defect */
  /* out of launch */
  int32_t launched;         /* 1: the batch goes to the device */
  int32_t due;              /* entries of the batch whose results settle needs; 0: none */
  int32_t due_slot;         /* which batch of the ring that is; -1: none */
  int32_t launched_slot;    /* ring slot of the launched batch; -1: none */
  int32_t encodes;          /* entries of the encode outbox: rows whose encoder is to be run */
  /* out of settle: the rank as the next gather sees it */
  int32_t done;             /* entries of the done outbox */
  int32_t tokens_out;       /* tokens settled in this iteration */
  int32_t routable;         /* n of spec 01 section 2.1 */
  int32_t retiring;         /* rho: state 14, 0 while they are charged */
  int64_t routable_tokens;  /* tau */
  int32_t state_counts[16]; /* requests by state in the order of berth_request_state, dummies not counted */
  int32_t seats_used;
  int32_t leases_used;
  int64_t pages_used;       /* in use or promised, of all pools; what only the index has isn't in use */
  int32_t free_rows;        /* entries of the free list */
  int32_t sends;            /* entries of the send outbox: rows that came to state 21, nothing launched writes to their KV */
  uint64_t decision_hash;   /* rolling: admissions and batches of every iteration so far */
  uint64_t batch_hash;      /* out of schedule: requests, kinds and tokens of this batch in order, the dummy left out */
  int64_t encoder_tokens;   /* out of schedule: their encoder input */
  int32_t batch_slot;       /* out of schedule: ring slot of this batch, launched or not; -1 before the first */
  int32_t zero;
} berth_iteration;

/* Where the core's shared memory lies; valid until berth_core_destroy. Addresses as integers, counts in entries. */
typedef struct berth_core_memory {
  uint32_t struct_size;
  int32_t rows;             /* including the dummy's row, the last one */
  uint64_t row_address;     /* berth_row[rows] */
  uint64_t cold_address;    /* berth_cold_row[rows] */
  uint64_t iteration_address;
  uint64_t admit_address;   /* berth_admit[rows - 1] */
  uint64_t change_address;  /* berth_change[rows - 1] */
  uint64_t receive_address; /* int32_t[rows]: rows */
  uint64_t done_address;    /* berth_done[rows] */
  uint64_t entry_address;   /* berth_entry[ring][entries_per_batch] */
  uint64_t result_address;  /* uint8_t[ring][entries_per_batch]: in, for settle: berth_result bits */
  uint64_t sampled_address; /* int32_t[ring][entries_per_batch]: in, for settle: the token made there; -1: not known */
  uint64_t active_address;  /* int32_t[rows]: active rows, oldest first */
  uint64_t free_address;    /* int32_t[rows - 1]: the admit inbox takes rows from the end of the first free_rows */
  uint64_t token_address;   /* int32_t[rows - 1][token_stride] */
  int64_t token_stride;     /* 0: pages are only counted, nobody has tokens */
  int32_t ring;
  int32_t entries_per_batch;
  /* sizes of the pools as they were made, for whoever compares them with a plan */
  int32_t seats;            /* that requests can hold, reserved ones not included; as leases */
  int32_t leases;
  int32_t reserved_leases;
  int32_t batch_positions;  /* of requests: a batch's entries without the dummy's */
  uint64_t encode_address;  /* int32_t[rows]: rows */
  int32_t table_rows;       /* of the block tables, for requests: as leases; 0: pages are only counted */
  int32_t zero;
  uint64_t send_address;    /* int32_t[rows]: rows */
} berth_core_memory;

/*
 * kv, buffers[n], pages[pages_n]: the cache, as for berth_kv_create, with one sequence and one row a lease at least, one
 * of each more for the dummy, and max_blocks for max_seq_len and the drafts; kv = null, 0, 0: pages are only counted,
 * config->pages of them. *out is written only on BERTH_OK.
 */
BERTH_API int32_t berth_core_create(const berth_core_config *config, const struct berth_kv_config *kv,
                                    const struct berth_kv_buffer *buffers, int32_t n, const int64_t *pages,
                                    int32_t pages_n, berth_core_t *out);
/*
 * The core's cache, to be read: tables, events, usage, probes. Its sequences are the core's. It goes with the core:
 * berth_kv_destroy is not for it.
 */
BERTH_API int32_t berth_core_kv(berth_core_t core, berth_kv_t *out);
/*
 * Between launch and settle: block tables of the batch that was launched, a row a batch position. n, contexts, beam and
 * the columns are the core's to fill. BERTH_E_STATE if nothing was launched.
 */
BERTH_API int32_t berth_core_prepare(berth_core_t core, struct berth_kv_batch *batch);
/* Pages of a row's request as berth_kv_blocks gives them, of its first beam. BERTH_E_ROW: it has none. */
BERTH_API int32_t berth_core_blocks(berth_core_t core, int32_t row, int32_t life_cycle, int32_t *out, int32_t capacity,
                                    int32_t *count);
BERTH_API int32_t berth_core_destroy(berth_core_t core);
BERTH_API int32_t berth_core_map(berth_core_t core, berth_core_memory *out);
/*
 * Applies the change inbox, admits the inbox, pads, builds the batch with seats, leases and pages taken tentatively,
 * pads again. BERTH_E_ARGUMENT names a bad inbox entry by leaving everything unchanged; BERTH_E_STATE if a launch is
 * outstanding.
 */
BERTH_API int32_t berth_core_schedule(berth_core_t core);
/*
 * The same in two calls, where the caller selects who is let in (config->selects). begin goes as far as the padding
 * before the schedule and brings the table up to date (berth_core_table). The caller then writes into it, and nowhere
 * else: fitting, in scheduling order, state 8 among them; paused; wait_reason of rows that it leaves out (as begin left
 * it: a gate). select takes seats, leases and pages for whom there are any, as long as the batch has places and tokens:
 * the others wait. BERTH_E_ROW names what can't be selected and changes nothing: select may be called again.
 */
BERTH_API int32_t berth_core_begin(berth_core_t core);
BERTH_API int32_t berth_core_select(berth_core_t core);
struct berth_table_memory;
/* The core's table; its rows are those of berth_core_map. Has no held pages, snapshots or adapters. */
BERTH_API int32_t berth_core_table(berth_core_t core, struct berth_table_memory *out);
/*
 * Can a request of this size, admitted in this state, ever run on an empty rank? *reason = BERTH_WAIT_NONE if so;
 * else what stands in the way (TOKENS: prompt and output against max_seq_len, or prompt against max_num_tokens without
 * chunking; PAGES: pages to the last token against all pages), with what it would take and what there is. Changes
 * nothing.
 */
BERTH_API int32_t berth_core_fits(berth_core_t core, int32_t state, int32_t prompt_tokens, int32_t max_new_tokens,
                                  int32_t *reason, int64_t *required, int64_t *available);
/* can_queue: the batch becomes launched. Otherwise seats, leases, pages and the dummy go back. */
BERTH_API int32_t berth_core_launch(berth_core_t core);
/* Settles the due batch, marks retirees, tears down what ended, describes the rank for the next gather. */
BERTH_API int32_t berth_core_settle(berth_core_t core);
/*
 * Between two iterations, instead of one: the runner's forward of these batches came to nothing, so their requests end as
 * FAILED, with the last launched batch that holds them. Ring slots of the batch launched and of the batch settled in the
 * iteration before, -1: none. Outboxes and record are those of an iteration that ran nothing.
 */
BERTH_API int32_t berth_core_fault(berth_core_t core, int32_t launched_slot, int32_t collected_slot);

/* ------------------------------------------------------------------------------------------
 * Scheduling: which requests run, how many tokens of each. A table is the memory that it reads
 * (rows, demands, held pages, the active list) and writes (the plan); the caller maps it once and
 * makes one call an iteration. Rules are a struct of the caller's, checked in every call. A plan is
 * a pure function of table and rules.
 * ---------------------------------------------------------------------------------------- */

typedef struct berth_table *berth_table_t;

enum berth_policy_set {
  BERTH_SET_TRTLLM = 0, /* trtllm-2026-09: parity, traps included */
  BERTH_SET_BERTH = 1   /* berth-1 */
};

enum berth_capacity_policy {
  BERTH_POLICY_MAX_REQUESTS = 0,
  BERTH_POLICY_GUARANTEED_NO_EVICT = 1,
  BERTH_POLICY_MAX_UTILIZATION = 2,
  BERTH_POLICY_STATIC_BATCH = 3
};

/* Bits: what a call runs. */
enum berth_stage {
  BERTH_STAGE_CAPACITY = 1,     /* active list -> fitting, receiving, paused */
  BERTH_STAGE_BATCH = 2,        /* fitting -> encoders, contexts, generations */
  BERTH_STAGE_BATCH_ACTIVE = 4, /* active list -> encoders, contexts, generations */
  BERTH_STAGE_ONE_LOOP = 8      /* both at once, allocating (spec 02 section 9); alone */
};

/* Bits of berth_rules.reuse and berth_rules.variable_window. */
enum berth_cache { BERTH_CACHE_SELF = 1, BERTH_CACHE_CROSS = 2 };

/* What is wrong with a row. */
enum berth_row_field {
  BERTH_FIELD_NONE = 0,
  BERTH_FIELD_LIVE = 1,            /* never initialised, or not checked since it was written */
  BERTH_FIELD_STATE = 2,           /* no such state; an encoder request without a cross pool */
  BERTH_FIELD_PROMPT_TOKENS = 3,   /* < 1; a context longer than any batch takes */
  BERTH_FIELD_CONTEXT_CURSOR = 4,  /* negative, past the prompt, before the cached tokens */
  BERTH_FIELD_CONTEXT_CHUNK = 5,   /* negative, more than remains */
  BERTH_FIELD_GENERATED_TOKENS = 6,
  BERTH_FIELD_MAX_NEW_TOKENS = 7,
  BERTH_FIELD_ADAPTER = 8,
  BERTH_FIELD_BEAM_WIDTH = 9,
  BERTH_FIELD_DRAFT_TOKENS = 10,
  BERTH_FIELD_CACHED_TOKENS = 11,
  BERTH_FIELD_REUSABLE_TOKENS = 12,
  BERTH_FIELD_ENCODER_TOKENS = 13,
  BERTH_FIELD_SNAPSHOTS = 14,      /* outside the arena, not ascending, a point < 1 */
  BERTH_FIELD_DEMAND = 15,         /* a negative count */
  BERTH_FIELD_HELD = 16,           /* outside the arena, a page id outside its pool */
  BERTH_FIELD_CACHE = 17,
  BERTH_FIELD_IN_FLIGHT = 18,
  BERTH_FIELD_PRIORITY = 19,       /* not a number */
  BERTH_FIELD_ORDER = 20           /* a list names a row outside the table, one not in the order, or one twice */
};

typedef struct berth_pool {
  int32_t window;    /* attention window in tokens, >= 1 */
  int32_t cross;     /* 1: holds encoder output. Self pools come first */
  int64_t free;      /* in: pages that nobody refers to, cached ones included */
  int64_t total;     /* pages of the pool; -1: not known */
  int32_t page_ids;  /* held page ids are in [0, page_ids); 0: pages are counted, not named */
  int32_t padding;
} berth_pool;

typedef struct berth_table_config {
  uint32_t struct_size;
  int32_t rows;         /* 1 .. 2^20 */
  int32_t pools;        /* 0 .. 16 */
  int32_t adapters;     /* adapter numbers are in [0, adapters); up to 2^20 */
  int32_t held_pages;   /* size of the held arena */
  int32_t snapshots;    /* size of the snapshot arena */
} berth_table_config;

/* What a call is to do. */
typedef struct berth_rules {
  uint32_t struct_size;
  int32_t set;                /* berth_policy_set */
  int32_t stages;             /* berth_stage bits */
  int32_t capacity;           /* berth_capacity_policy; a table without pools gets MAX_REQUESTS */
  int32_t max_requests;       /* of the capacity stage, >= 1 */
  int32_t lookahead;          /* steps that MAX_UTILIZATION provides for: 1, 2 */
  int32_t range_begin;        /* schedulable = state in [begin, end): 10, or 1 with encoders */
  int32_t range_end;          /* of the capacity stage: 14, or 20 for parity */
  int32_t batch_range_end;    /* of the batch stage and of one loop: 14 */
  int32_t prefix_sharing;     /* 1: delay what can share a prefix that is being computed; give reuse credit */
  int32_t reuse;              /* berth_cache bits: block reuse on */
  int32_t variable_window;    /* berth_cache bits */
  int32_t adapter_pages;      /* device pages for adapters; -1: no adapter manager */
  int32_t max_batch_size;     /* >= 1 */
  int32_t max_num_tokens;     /* 0: no limit */
  int32_t max_context_tokens; /* 0: no limit */
  int32_t chunking;           /* berth_chunking */
  int32_t chunk_unit;         /* >= 1 where chunking */
  /* one loop, with pages counted by the table */
  int32_t tokens_per_block;
  int32_t gpu_pages;
  int32_t leases;             /* caches at a time, suspended ones too */
  int32_t tier_below;         /* 1: suspended caches leave the GPU */
  int32_t recompute_pause;    /* 1: a cache may be dropped and computed again */
  int32_t reuse_late;         /* 1: blocks become reusable only at the end of a request */
  /* all stages that make batches */
  int32_t exclusive_flight;   /* 1: a row in flight isn't scheduled again (pipeline) */
} berth_rules;

/* A context of the batch. 16 bytes. */
typedef struct berth_pick {
  int32_t row;
  int32_t tokens;    /* prompt tokens to compute, reused ones included */
  int32_t drafts;    /* draft tokens that stay on the request */
  int32_t position;  /* of the first of these tokens */
} berth_pick;

/* The plan of one call. */
typedef struct berth_schedule {
  /* in */
  int32_t active;           /* entries of the active list */
  int32_t fitting;          /* in for BERTH_STAGE_BATCH alone, else out: rows that fit, state 8 not among them */
  /* out; BERTH_STAGE_BATCH alone leaves the next two as they are */
  int32_t receiving;        /* state 8 rows that may start their transfer */
  int32_t paused;           /* V1: give up pages and compute again later. One loop: suspended */
  int32_t recomputed;       /* one loop: caches dropped */
  int32_t encoders;
  int32_t contexts;
  int32_t generations;
  int64_t batch_tokens;
  int32_t stalled;          /* one loop: 1 if nothing moved although something could have */
  int32_t row;              /* BERTH_E_ROW: the row, -1: none */
  int32_t field;            /* BERTH_E_ROW: berth_row_field */
  int32_t padding;
  int32_t deferred[16];     /* unscheduled rows by berth_wait_reason */
  int32_t short_of[16];     /* those that lack pages, by pool */
} berth_schedule;

/* Where the table's memory lies; valid until berth_table_destroy. */
typedef struct berth_table_memory {
  uint32_t struct_size;
  int32_t rows;
  uint64_t row_address;        /* berth_row[rows] */
  uint64_t side_address;       /* berth_side_row[rows] */
  uint64_t demand_address;     /* berth_demand[rows][pools] */
  uint64_t held_address;       /* berth_held[rows][pools] */
  uint64_t held_page_address;  /* int32_t[held_pages] */
  uint64_t snapshot_address;   /* int32_t[snapshots] */
  uint64_t pool_address;       /* berth_pool[pools]; only free may be written */
  uint64_t adapter_address;    /* int32_t[adapters]: device pages of each */
  uint64_t active_address;     /* int32_t[rows]: in, in scheduling order */
  uint64_t schedule_address;   /* berth_schedule */
  uint64_t fitting_address;    /* int32_t[rows] */
  uint64_t receiving_address;  /* int32_t[rows] */
  uint64_t paused_address;     /* int32_t[rows] */
  uint64_t recomputed_address; /* int32_t[rows] */
  uint64_t encoder_address;    /* int32_t[rows] */
  uint64_t context_address;    /* berth_pick[rows] */
  uint64_t generation_address; /* int32_t[rows] */
} berth_table_memory;

/* pools: config->pools of them, may be null for 0; a window of 0 is refused. */
BERTH_API int32_t berth_table_create(const berth_table_config *config, const berth_pool *pools, berth_table_t *out);
BERTH_API int32_t berth_table_destroy(berth_table_t table);
BERTH_API int32_t berth_table_map(berth_table_t table, berth_table_memory *out);
/*
 * Checks rows that were written, in order, and marks those that are good. BERTH_E_ROW at the first bad one (the schedule
 * record names row and field; rows behind it aren't looked at); BERTH_E_ARGUMENT if an index is outside the table.
 */
BERTH_API int32_t berth_table_check(berth_table_t table, const int32_t *rows, int32_t n);
/* Are these rules possible on this table? *rule = 1-based position of the first bad field behind struct_size, 0: good. */
BERTH_API int32_t berth_rules_check(berth_table_t table, const berth_rules *rules, int32_t *rule);
/* One iteration. BERTH_E_ROW, BERTH_E_ARGUMENT (the rules): nothing is scheduled. */
BERTH_API int32_t berth_table_schedule(berth_table_t table, const berth_rules *rules);
/*
 * Puts a paused row back to the start (spec 02 section 1.3): with a beam of 1 its tokens become the new prompt, at most
 * max_input of them; with a wider beam generated tokens are lost. Seat and pages are the caller's to release.
 */
BERTH_API int32_t berth_table_pause(berth_table_t table, int32_t row, int32_t max_input);

/* ------------------------------------------------------------------------------------------
 * KV cache: the pages of one rank (spec 03). One object owns the page pools, the prefix index,
 * the sequences, the resident block tables and the event ring. Its memory that the caller reads
 * and writes is mapped once (berth_kv_map); calls carry no other pointers but columns of a batch.
 *
 * A sequence is named by a handle (generation << 32 | number). Tokens travel in the token arena:
 * the caller writes them there and names them by offset and count. Exhaustion of pages is
 * BERTH_E_EXHAUSTED of an operation, which then changed nothing.
 * ---------------------------------------------------------------------------------------- */

enum berth_kv_level { BERTH_KV_DEVICE = 0, BERTH_KV_HOST = 1, BERTH_KV_DISK = 2, BERTH_KV_LEVELS = 3 };

/* What a layer keeps of a block. 40 bytes. */
typedef struct berth_kv_buffer {
  int64_t bytes;    /* of one block of tokens (below); 1 .. 2^40 */
  int32_t layer;    /* 0 .. 65535 */
  int32_t role;     /* 0 .. 15: even = key (or all there is), next odd = its value; 16 + r: scale factors of role r */
  int32_t window;   /* -1: full attention; 0: a recurrent state, one a sequence; n: a sliding window of n tokens */
  int32_t sinks;    /* tokens at the front that a sliding window keeps */
  int32_t tokens;   /* tokens of a block of this buffer if they aren't tokens_per_block, which they divide; 0 */
  int32_t domain;   /* target, draft, cross: buffers of different domains share no life cycle */
  int32_t padding[2];
} berth_kv_buffer;

/* Where a buffer lies. page index = slot * scale + ordinal * expansion, pages stride bytes apart from the pool's base. */
typedef struct berth_kv_place {
  int64_t stride;
  int64_t offset;     /* bytes from the slot's start */
  int32_t life_cycle;
  int32_t view;
  int32_t ordinal;
  int32_t expansion;
} berth_kv_place;

typedef struct berth_kv_view {
  int32_t life_cycle;
  int32_t pool;
  int32_t scale;
  int32_t value_offset; /* of a value's page index from its key's; 0: no values in this pool */
} berth_kv_view;

typedef struct berth_kv_pool {
  int64_t slot_bytes;
  int32_t group;
  int32_t index;        /* in its group */
} berth_kv_pool;

typedef struct berth_kv_life_cycle {
  int32_t window;
  int32_t sinks;
  int32_t domain;
  int32_t group;
} berth_kv_life_cycle;

/* Counts of a layout, and the arrays it is written to: each of the caller, with room for as many as buffers (16 life
 * cycles and groups at most). */
typedef struct berth_kv_layout {
  uint32_t struct_size;
  int32_t life_cycles;
  int32_t groups;
  int32_t pools;
  int32_t views;
  int32_t bad_buffer;          /* BERTH_E_ARGUMENT: the buffer that can't be; -1: their number or tokens_per_block */
  uint64_t place_address;      /* berth_kv_place[buffers] */
  uint64_t view_address;       /* berth_kv_view[views] */
  uint64_t pool_address;       /* berth_kv_pool[pools] */
  uint64_t life_cycle_address; /* berth_kv_life_cycle[life_cycles] */
  uint64_t max_slots_address;  /* int64_t[groups]: no page index passes 2^31 - 1 with so many slots */
} berth_kv_layout;

/* Pure arithmetic. BERTH_E_ARGUMENT: bad_buffer says which. */
BERTH_API int32_t berth_kv_plan(const berth_kv_buffer *buffers, int32_t n, int32_t tokens_per_block,
                                berth_kv_layout *out);

enum berth_kv_pages_kind {
  BERTH_KV_NAMED = 0,  /* pages have numbers */
  BERTH_KV_MEMORY = 1, /* and memory */
  BERTH_KV_COUNTED = 2 /* only how many there are is known: no tables, tokens, index, events or recurrent states, one beam;
                          sequences and pools take no memory by their length. Up to 2^44 pages of a group, 0 too */
};

enum berth_kv_mode {
  BERTH_KV_SYNCHRONOUS = 0, /* copies and tables have happened when a call returns */
  BERTH_KV_EMULATION = 1    /* they happen in berth_kv_run, from snapshots: a device without a device */
};

/*
 * The disk level: a file without a name in a directory, that ends with the cache. Transfers from and to it are carried out
 * by threads of the cache's own; no call but berth_kv_poll waits for them.
 */
typedef struct berth_kv_disk {
  uint32_t struct_size;
  int32_t threads;            /* 1 .. 64; emulation has none: transfers happen in berth_kv_run */
  int32_t depth;              /* pages under way, 2 .. 65536; half of them may be on their way down */
  int32_t error;              /* out, BERTH_E_IO: errno */
  int32_t cause;              /* out, BERTH_E_IO: berth_kv_disk_cause */
  int32_t padding;
  uint64_t directory_address; /* char[directory_bytes], no terminator */
  int64_t directory_bytes;    /* 1 .. 4095 */
  int64_t bytes;              /* out: of the file; -1: more than there can be */
  char text[128];             /* out, BERTH_E_IO: what the system says, terminated */
} berth_kv_disk;

enum berth_kv_disk_cause {
  BERTH_KV_DISK_DIRECTORY = 1, /* no file can be made there */
  BERTH_KV_DISK_SPACE = 2,     /* there is no room for its bytes */
  BERTH_KV_DISK_THREADS = 3    /* no thread can be started */
};

typedef struct berth_kv_config {
  uint32_t struct_size;
  int32_t tokens_per_block;     /* 1 .. 1024 */
  int32_t max_blocks;           /* blocks of a sequence: a multiple of 4, max_blocks * tokens_per_block < 2^30 */
  int32_t sequences;            /* open at a time, 1 .. 2^20 */
  int32_t rows;                 /* of the resident tables: (leases + reserved) * beams, 1 .. 2^20 */
  int32_t beams;                /* widest beam, 1 .. 64 */
  int32_t pins;                 /* lookups pinned at a time, 0 .. 2^20 */
  int32_t scopes;               /* adapter and salt pairs with blocks at a time, 1 .. 2^20 */
  int32_t tenants;              /* 1 .. 64 */
  int32_t index_blocks;         /* blocks of the prefix index, 0 (no reuse) .. 2^28 */
  int32_t partial_reuse;        /* 1: part of a block may be reused, by copy */
  int32_t default_priority;     /* 0 .. 100 */
  int32_t offload_min_priority; /* below it a block is dropped where it could move a level down */
  int32_t max_utilisation;      /* resume is refused beyond it, in 1/65536 of a group's pages; 65536: never */
  int32_t event_ring_log2;      /* events kept unread, as a power of two, 4 .. 24; 0: no events */
  int32_t memory;               /* berth_kv_pages_kind */
  int32_t mode;                 /* berth_kv_mode */
  int32_t staging;              /* emulation: batches under way, 1 .. 64 */
  int32_t bad_value;            /* what tables say where there is no page */
  int32_t token_arena;          /* tokens that a batch of operations may name, 1 .. 2^28 */
  uint64_t hash_key[2];         /* of the index's hashes; results don't depend on it */
  uint64_t disk_address;        /* berth_kv_disk; 0: none. Needed for pages on the disk level that have memory */
  uint64_t most_address;        /* int64_t[BERTH_KV_LEVELS][groups]: pages that berth_kv_adjust may give; 0: as created */
} berth_kv_config;

typedef struct berth_kv_stats {
  uint32_t struct_size;
  int32_t open_sequences;
  int32_t active_sequences;
  int32_t pins;
  int64_t evicted;          /* blocks dropped from the index for want of pages */
  int64_t offloaded;        /* blocks moved a level down */
  int64_t onboarded;        /* blocks moved up */
  int64_t rebased;          /* blocks whose pages were given up for those of the index */
  int64_t hit_tokens;       /* found by opens */
  int64_t asked_tokens;     /* looked for by opens */
  int64_t index_blocks;     /* in use */
  int64_t index_runs;
  uint64_t wait_epoch;      /* the highest epoch that must have completed before the pages handed out so far are written */
  int64_t written;          /* pages that went to the disk level */
  int64_t read;             /* pages that came from it */
  int64_t failed;           /* transfers that failed */
  int64_t lost;             /* blocks and window pages that left the index for it */
  int64_t under_way;        /* transfers asked for and not settled */
} berth_kv_stats;

/* Pages of a pool group on a level. free + held + cached + moving = total. */
typedef struct berth_kv_pages {
  int64_t total;
  int64_t free;
  int64_t held;      /* by sequences alone, not in the index */
  int64_t cached;    /* in the index, referenced or not */
  int64_t evictable; /* of the cached */
  int64_t moving;    /* owned by transfers: where they go to, or what was given up while they were under way */
} berth_kv_pages;

enum berth_kv_op_kind {
  BERTH_KV_OPEN = 1,     /* tokens: the prompt. out: handle, tokens found, of these in a partial block */
  BERTH_KV_RESUME = 2,   /* a: table row. Brings its pages to the device and locks them. BERTH_E_PENDING: some come from
                            the disk level, resume again when the ticket is done; BERTH_E_MISSING: some were lost, the
                            sequence has matched tokens left and is suspended; said once */
  BERTH_KV_SUSPEND = 3,  /* the row is free again; pages are kept */
  BERTH_KV_RESIZE = 4,   /* a: capacity, b: history, in tokens; -1: as it is */
  BERTH_KV_COMMIT = 5,   /* tokens: what follows the committed ones. flags: END */
  BERTH_KV_STOP = 6,     /* no more commits; the block begun is stored as a partial one */
  BERTH_KV_CLOSE = 7,
  BERTH_KV_WIDEN = 8,    /* a: beams */
  BERTH_KV_RETAIN = 9,   /* a, b: tokens [a, b) (b = -1: to the end) c: priority, time: microseconds, -1: for ever.
                          * What the sequence found or stored already is kept so too */
  BERTH_KV_LOOKUP = 10,  /* tokens. flags: PIN. out as OPEN; handle: the pin */
  BERTH_KV_UNPIN = 11,   /* handle: a pin */
  BERTH_KV_PLAN_DROP = 12, /* a stopped sequence's window pages, which only a next turn would use. handle out: a pin */
  BERTH_KV_DROP = 13,    /* handle: such a plan: drops the pages that no other plan keeps */
  BERTH_KV_PREFETCH = 14 /* a: berth_kv_level, device or host. Brings the pages of a suspended sequence up to it. out:
                            ticket, 0: they are there. BERTH_E_MISSING as of RESUME */
};

enum berth_kv_flag {
  BERTH_KV_END = 1,       /* commit: the last one; recurrent state may be moved instead of copied */
  BERTH_KV_PIN = 2,
  BERTH_KV_NO_REUSE = 4,  /* open: look for nothing */
  BERTH_KV_NO_COMMIT = 8, /* open: store nothing */
  BERTH_KV_NO_REBASE = 16,/* open: keep own pages where the index has the block already (and commit no further) */
  BERTH_KV_MIN_SNAPSHOT = 128, /* open: of windows and states store only what the next turn needs */
  /* resize: a chunk of a prompt. New window blocks that its end doesn't look at any more share slots, layer by layer;
   * until the history has passed them it can't end among them, nor the capacity. Only tables by buffer name them. */
  BERTH_KV_SCRATCH = 256,
  BERTH_KV_LORA = 32,     /* lora is meant, 0 too */
  BERTH_KV_SALT = 64
};

/* One operation, in and out. 96 bytes. */
typedef struct berth_kv_op {
  uint64_t handle;
  uint64_t lora;
  uint64_t salt;
  int64_t time;        /* microseconds */
  int64_t token_offset;
  int32_t token_count;
  int32_t kind;        /* berth_kv_op_kind */
  int32_t flags;       /* berth_kv_flag */
  int32_t a;
  int32_t b;
  int32_t c;
  int32_t tenant;
  int32_t status;      /* out: berth_status_code */
  int32_t matched;     /* out: tokens found, the partial block's too */
  int32_t partial;     /* out: of these in a partial block */
  int32_t group;       /* out: the pool group that is short; -1 */
  int32_t deficit;     /* out: pages short there; 0 with EXHAUSTED: the utilisation limit */
  uint64_t ticket;     /* out: of the transfers that it waits for; 0: none */
} berth_kv_op;

/* Where the cache's memory lies; valid until berth_kv_destroy. */
typedef struct berth_kv_memory {
  uint32_t struct_size;
  int32_t life_cycles;
  int32_t groups;
  int32_t views;
  int32_t pools;
  int32_t states;         /* life cycles that are a recurrent state */
  int32_t event_tokens;   /* tokens a record of the event ring: tokens_per_block */
  int32_t padding;
  uint64_t token_address; /* int32_t[token_arena] */
  int64_t tokens;
  uint64_t event_address; /* berth_kv_event_ring, then berth_kv_event[ring], then int32_t[ring][event_tokens]; 0: none */
  int64_t events;         /* entries of the ring */
  int64_t event_bytes;    /* of all of it */
  uint64_t io_address;    /* berth_kv_io, then berth_kv_ticket[tickets] */
  int64_t tickets;        /* a power of two */
  uint64_t finished_address; /* uint64_t, moved by other threads (load acquire): transfers that have finished; 0: no disk */
} berth_kv_memory;

/*
 * Tickets are numbered 1, 2, 3 ... and are done in that order, when a poll settles their last transfer. What became of
 * ticket t stands in record t modulo tickets, until it is overwritten.
 */
typedef struct berth_kv_io {
  uint64_t settled; /* transfers: finished - settled would be settled by a poll now */
  uint64_t issued;  /* tickets */
  uint64_t done;    /* tickets; stored release, after the record */
  uint64_t padding[5];
} berth_kv_io;

typedef struct berth_kv_ticket {
  uint64_t ticket;
  int32_t pages;  /* that it moves */
  int32_t failed; /* of these */
  int32_t error;  /* errno of the first that failed */
  int32_t padding;
} berth_kv_ticket;

enum berth_kv_event_kind { BERTH_KV_STORED = 1, BERTH_KV_REMOVED = 2, BERTH_KV_UPDATED = 3 };

/* Single producer, single consumer. tail is the consumer's; the others are the cache's. */
typedef struct berth_kv_event_ring {
  uint64_t head;     /* records written so far */
  uint64_t tail;     /* records read so far */
  uint64_t dropped;  /* events that found the ring full: their sequence numbers are missing */
  uint64_t sequence; /* the last event's number */
  uint64_t padding[4];
} berth_kv_event_ring;

/* One page of the index came, went or moved. 80 bytes. */
typedef struct berth_kv_event {
  uint64_t sequence;   /* 1, 2, 3 ...: a gap means dropped events, then a snapshot is due */
  uint64_t block;      /* never used again for another block */
  uint64_t parent;     /* block before it; 0: the first of its scope */
  uint64_t lora;
  uint64_t salt;
  int32_t kind;        /* berth_kv_event_kind */
  int32_t life_cycle;
  int32_t tokens;      /* of the block, stored: in the record's token area */
  int32_t level;       /* berth_kv_level, now */
  int32_t old_level;
  int32_t priority;
  int32_t scope;       /* bit 0: lora is meant, bit 1: salt is */
  int32_t partial;     /* 1: less than a block */
  int32_t padding[2];
} berth_kv_event;

/* A batch whose tables are wanted. Output addresses: device memory, 0: not wanted. Rows past the batch are left as they
 * are unless clear_padding. */
typedef struct berth_kv_batch {
  uint32_t struct_size;
  int32_t n;                   /* sequences, all active */
  uint64_t handle_address;     /* uint64_t[n] */
  uint64_t query_address;      /* int32_t[n]: tokens that the batch computes of each, behind its history */
  int32_t contexts;            /* the first so many have one row, the others beam */
  int32_t beam;                /* 1 .. beams */
  int32_t clear_padding;
  int32_t output_rows;
  int64_t output_tokens;
  int64_t csr_capacity;
  uint64_t table_address;      /* int32_t[views][output_rows][2][max_blocks] */
  uint64_t mapping_address;    /* int64_t[life cycles][output_tokens] */
  uint64_t indptr_address;     /* int32_t[views][rows + 1] */
  uint64_t indices_address;    /* int32_t[views][csr_capacity] */
  uint64_t last_address;       /* int32_t[rows] */
  uint64_t state_address;      /* int32_t[states][output_rows] */
  int32_t rows;                /* out: contexts + beam * (n - contexts) */
  int32_t pad_state;           /* slot of padded rows in state_address */
  uint64_t step;               /* out: the stream's step that fills it */
  uint64_t buffer_address;     /* int32_t[buffers][output_rows][max_blocks]: pages of each buffer, in its strides from its
                                * pool's base, those of scratch too */
} berth_kv_batch;

/* config sizes come from the plan; pages: int64_t[BERTH_KV_LEVELS][groups]. *out is written only on BERTH_OK. BERTH_E_IO:
 * the disk level can't be made, the disk record says why. */
BERTH_API int32_t berth_kv_create(const berth_kv_config *config, const berth_kv_buffer *buffers, int32_t n,
                                  const int64_t *pages, int32_t pages_n, berth_kv_t *out);
/* Transfers that are being carried out end first, those that wait never begin. */
BERTH_API int32_t berth_kv_destroy(berth_kv_t kv);
BERTH_API int32_t berth_kv_map(berth_kv_t kv, berth_kv_memory *out);
/* Applies n operations in order, each on its own; returns the first status that isn't OK, else OK. */
BERTH_API int32_t berth_kv_apply(berth_kv_t kv, berth_kv_op *ops, int32_t n);
/*
 * The decode step in columns: sequence i gets room for grow[i] more tokens after its history has advanced by advance[i]
 * (either column may be null: zeros). Statuses as of RESIZE. Returns the first that isn't OK, else OK.
 */
BERTH_API int32_t berth_kv_grow(berth_kv_t kv, const uint64_t *handles, const int32_t *grow, const int32_t *advance,
                                int32_t n, int32_t *statuses);
/* The longest match of n prompts in the scope (scope: bit 0 lora, bit 1 salt): prompt i is tokens [offsets[i],
 * offsets[i + 1]) of the arena. Changes nothing. */
BERTH_API int32_t berth_kv_probe(berth_kv_t kv, uint64_t lora, uint64_t salt, int32_t scope, const int64_t *offsets,
                                 int32_t n, int32_t *matched);
BERTH_API int32_t berth_kv_prepare(berth_kv_t kv, berth_kv_batch *batch);
/* launch: the epoch of what is launched from now on (what is released is reusable once it completed); complete: all
 * epochs up to it have. Neither goes back. */
BERTH_API int32_t berth_kv_epoch(berth_kv_t kv, uint64_t launch, uint64_t complete);
/* Time for retention, microseconds; never goes back. */
BERTH_API int32_t berth_kv_clock(berth_kv_t kv, int64_t now);
/* Emulation: lets up to n steps of the stream happen. */
BERTH_API int32_t berth_kv_run(berth_kv_t kv, int32_t n, int32_t *done);
/*
 * Settles finished transfers in the order in which they were started, at most so many: only then are their pages where
 * they were to go, or lost. Blocks until at_least are (or all that are under way, if these are fewer); 0: never. Which
 * transfers have finished depends on time, what they change only on how many are settled: *settled.
 */
BERTH_API int32_t berth_kv_poll(berth_kv_t kv, int32_t at_least, int32_t at_most, int32_t *settled);
/*
 * Other numbers of pages: pages[BERTH_KV_LEVELS][groups], at most those of most_address, on the disk level as they are.
 * What doesn't fit is evicted, what lies behind moves forward. BERTH_E_STATE: a sequence is active, pages are on their way
 * up, or something launched hasn't completed; BERTH_E_EXHAUSTED: pool level * groups + group is *deficit pages too small
 * for what can't be evicted. Nothing changed then.
 */
BERTH_API int32_t berth_kv_adjust(berth_kv_t kv, const int64_t *pages, int32_t pages_n, int32_t *pool, int64_t *deficit);
/* Blocks that a tenant keeps undisturbed; 0: no quota. */
BERTH_API int32_t berth_kv_quota(berth_kv_t kv, int32_t tenant, int64_t blocks);
/* Page of each block of a sequence's beam, -1: none there; level * 2^28 + slot off the device; below -1: it shares a
 * slot. BERTH_E_CAPACITY. */
BERTH_API int32_t berth_kv_blocks(berth_kv_t kv, uint64_t handle, int32_t life_cycle, int32_t beam, int32_t *out,
                                  int32_t capacity, int32_t *count);
/* state (0 suspended, 1 active), committed, history, capacity, blocks, blocks in the index, row, 0 = commits / 1 = commits
 * no more / 2 = stopped: int32_t out[8]. */
BERTH_API int32_t berth_kv_sequence(berth_kv_t kv, uint64_t handle, int32_t *out);
/* out: berth_kv_pages[BERTH_KV_LEVELS][groups] */
BERTH_API int32_t berth_kv_describe(berth_kv_t kv, berth_kv_stats *stats, berth_kv_pages *out, int32_t pages_n);
/* The index as STORED events, parents first, with the number of the last event in *sequence. Records to events[capacity],
 * tokens to tokens[capacity][tokens_per_block]. BERTH_E_CAPACITY: *count is the room needed, nothing was written. */
BERTH_API int32_t berth_kv_snapshot(berth_kv_t kv, berth_kv_event *events, int32_t *tokens, int32_t capacity,
                                    int32_t *count, uint64_t *sequence);
/* Forgets the index: nobody finds anything any more; pages in use stay until they are let go. */
BERTH_API int32_t berth_kv_reset(berth_kv_t kv);
/* Examines every invariant; BERTH_OK, or BERTH_E_STATE with the number of the broken one. Takes time in all pages. */
BERTH_API int32_t berth_kv_check(berth_kv_t kv, int32_t *broken);
/* A page's bytes: address of a slot in a pool; 0 where there is no memory, or a file. */
BERTH_API int32_t berth_kv_page(berth_kv_t kv, int32_t level, int32_t pool, int32_t slot, uint64_t *address,
                                int64_t *bytes);

enum berth_kv_hash {
  BERTH_KV_V1_BLOCK_KEY = 1,  /* 8 bytes */
  BERTH_KV_V2_SHA256 = 2,     /* 32 bytes */
  BERTH_KV_V2_SHA256_64 = 3   /* 8 bytes: the first of v2_sha256 */
};
/*
 * Identities of blocks as other systems name them: tokens[n] in blocks of tokens_per_block (the last may be shorter) after
 * parent (32 bytes: the last digest of an earlier call, or null: from the scope's root). out: 8 or 32 bytes a block.
 * digest: 32 bytes out, for the next call; may be null.
 */
BERTH_API int32_t berth_kv_hash_blocks(int32_t algorithm, uint64_t lora, uint64_t salt, int32_t scope,
                                       const uint8_t *parent, const int32_t *tokens, int32_t n,
                                       int32_t tokens_per_block, uint8_t *out, int64_t capacity, uint8_t *digest);

#ifdef __cplusplus
}
#endif
#endif
