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
  BERTH_E_SKIPPED = 9,    /* all-or-nothing batch: this item was not tried, an earlier one failed */
  BERTH_E_ROW = 10        /* a row isn't fit to be scheduled: the schedule record says which row and which field */
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
 * Rank core: one per rank. It owns the request table, the seats, the leases and the page
 * counter of its rank, and makes one iteration in three calls: schedule, launch, settle. Inputs
 * and outputs travel in memory that the core owns and the caller maps once (berth_core_memory),
 * so the calls carry no pointers.
 * ---------------------------------------------------------------------------------------- */

typedef struct berth_core *berth_core_t;

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
  BERTH_ROW_MULTIMODAL = 64       /* a generation that can't be recomputed from its tokens */
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
  BERTH_WAIT_REASONS = 13
};

/* Where an empty rank is padded so that the fleet can go on (spec 01 section 7). */
enum berth_padding {
  BERTH_PAD_NONE = 0,   /* without attention DP a rank asks only itself */
  BERTH_PAD_BEFORE = 1, /* before scheduling: the pipeline loop */
  BERTH_PAD_BOTH = 2    /* before and after */
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
  int32_t children;
  int32_t pages;          /* pages of the counter held */
  int32_t padding[2];
} berth_cold_row;

/* Inbox: a request to put on this rank. 48 bytes. */
typedef struct berth_admit {
  uint64_t request_id;
  uint64_t tag;
  int32_t state;           /* CONTEXT_INIT or GENERATION_INIT */
  int32_t prompt_tokens;   /* >= 1 */
  int32_t max_new_tokens;  /* >= 1 */
  int32_t load_tokens;
  int32_t cached_tokens;
  int32_t children;
  int32_t padding[2];
} berth_admit;

enum berth_change_kind {
  BERTH_CHANGE_ARRIVED = 1,  /* state 9 -> 12: the KV is here */
  BERTH_CHANGE_FAILED = 2,   /* state 9 -> -1 */
  BERTH_CHANGE_CANCEL = 3    /* a row in state 9 leaves when its transfer is over */
};

/* Inbox: what happened to a row since the last iteration. Ignored (and counted) if request_id isn't the row's. */
typedef struct berth_change {
  uint64_t request_id;
  int32_t row;
  int32_t kind;
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
  int32_t transceiver;        /* 1: states 8 and 9 aren't schedulable work when padding */
  int32_t chunking;           /* berth_chunking */
  int32_t tokens_per_block;   /* page size in tokens, >= 1 */
  int32_t max_seq_len;        /* longest sequence, prompt and output, in tokens; 0: no limit */
  int64_t pages;              /* pages of this rank; -1: not limited */
  int32_t policy_set;         /* berth_policy_set */
  int32_t capacity;           /* berth_capacity_policy: GUARANTEED_NO_EVICT or STATIC_BATCH, the pages being counted */
} berth_core_config;

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
  /* in, for launch */
  int32_t can_queue;        /* the fleet's vote */
  int32_t held;             /* 1: a gate holds the forward: nothing is launched and nothing settled */
  /* out of schedule */
  int32_t batch;            /* entries, the dummy included */
  int32_t contexts;
  int32_t generations;      /* the dummy included */
  int32_t real;             /* entries that are requests */
  int32_t batch_tokens;
  int32_t padded;           /* 1: this rank got a dummy in this iteration */
  int32_t resident;         /* requests on this rank after admission, the dummy not counted */
  int32_t receives;         /* entries of the receive outbox: rows that moved 8 -> 9 */
  int32_t stale_changes;    /* changes whose request had left */
  int32_t deferred[16];     /* by berth_wait_reason */
  /* out of launch */
  int32_t launched;         /* 1: the batch goes to the device */
  int32_t due;              /* entries of the batch whose results settle needs; 0: none */
  int32_t due_slot;         /* which batch of the ring that is; -1: none */
  int32_t launched_slot;    /* ring slot of the launched batch; -1: none */
  /* out of settle: the rank as the next gather sees it */
  int32_t done;             /* entries of the done outbox */
  int32_t tokens_out;       /* tokens settled in this iteration */
  int32_t routable;         /* n of spec 01 section 2.1 */
  int32_t retiring;         /* rho: state 14, 0 while they are charged */
  int64_t routable_tokens;  /* tau */
  int32_t state_counts[16]; /* requests by state in the order of berth_request_state, dummies not counted */
  int32_t seats_used;
  int32_t leases_used;
  int64_t pages_used;
  uint64_t decision_hash;   /* rolling: admissions and batches of every iteration so far */
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
  uint64_t result_address;  /* uint8_t[ring][entries_per_batch]: in, for settle: 1 = the sequence ends here */
  uint64_t active_address;  /* int32_t[rows]: active rows, oldest first */
  int32_t ring;
  int32_t entries_per_batch;
} berth_core_memory;

BERTH_API int32_t berth_core_create(const berth_core_config *config, berth_core_t *out);
BERTH_API int32_t berth_core_destroy(berth_core_t core);
BERTH_API int32_t berth_core_map(berth_core_t core, berth_core_memory *out);
/*
 * Applies the change inbox, admits the inbox, pads, builds the batch with seats, leases and pages taken tentatively,
 * pads again. BERTH_E_ARGUMENT names a bad inbox entry by leaving everything unchanged; BERTH_E_STATE if a launch is
 * outstanding.
 */
BERTH_API int32_t berth_core_schedule(berth_core_t core);
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
  BERTH_FIELD_ORDER = 20           /* the active list names a row outside the table */
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
  int32_t index_slots;
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

#ifdef __cplusplus
}
#endif
#endif
