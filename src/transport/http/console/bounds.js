// @ts-check
/**
 * Every bound of the page, with its unit in the name or the comment. No data of the daemon exceeds
 * them.
 */

/** Latest events in memory. */
export const EVENTS_KEPT = 2000;
/** Events in one request: at the start, and around a past position. */
export const EVENTS_ASKED = 300;
/** Rows of the event table. */
export const EVENT_ROWS = 200;
/** Characters of one event's data. */
export const DATA_CHARACTERS = 20_000;
/** Lines of the log. */
export const LOG_LINES = 500;
/** Characters of one line of the log. */
export const LINE_CHARACTERS = 4000;
/** Runs in the list: at first, and for each request for more. */
export const RUNS_SHOWN = 20;
export const RUNS_MORE = 100;
/** Characters of a prompt in the list. */
export const PROMPT_CHARACTERS = 140;
/** Characters of one answer. A longer one shows its end. */
export const OUTPUT_CHARACTERS = 200_000;
/** Parts of a conversation, and characters of one of them. */
export const MESSAGES_SHOWN = 50;
export const MESSAGE_CHARACTERS = 20_000;
/** Rows of a run's timeline: its first and its last events. */
export const TIMELINE_ROWS = 200;
/** Models to choose from. */
export const MODELS_SHOWN = 200;
/** Providers in the table. */
export const PROVIDERS_SHOWN = 100;
/** Instances of one machine to choose from. */
export const INSTANCES_SHOWN = 200;
/** Characters of a diagram. */
export const DIAGRAM_CHARACTERS = 2_000_000;

export const RETRY_FIRST_MS = 250;
export const RETRY_MAX_MS = 5000;
/** Timeout of a request. */
export const ASK_MS = 30_000;
/** Between two reads of the present state. */
export const REFRESH_MS = 150;
/** The slider must rest for this long before the page reads a past position. */
export const TRAVEL_MS = 80;
/** How long an edge is lit after a step. */
export const FLASH_MS = 1200;
