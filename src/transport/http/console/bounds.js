// @ts-check
/** Every bound of the page, with its unit last in the name or in its comment. Nothing the daemon sends can make it grow beyond them. */

/** Latest events in memory. */
export const EVENTS_KEPT = 2000;
/** Events that are asked for at once: at the beginning, and around a moment of the past. */
export const EVENTS_ASKED = 300;
/** Rows of the event table. */
export const EVENT_ROWS = 200;
/** Characters of one event's data. */
export const DATA_CHARACTERS = 20_000;
/** Lines of the log. */
export const LOG_LINES = 500;
/** Characters of one line of the log. */
export const LINE_CHARACTERS = 4000;
/** Runs of the list: at first, and when more are asked for. */
export const RUNS_SHOWN = 20;
export const RUNS_MORE = 100;
/** Characters of a prompt in the list. */
export const PROMPT_CHARACTERS = 140;
/** Characters of one answer; of a longer one the end is shown. */
export const OUTPUT_CHARACTERS = 200_000;
/** Rows of a run's timeline: the first ones and the last ones. */
export const TIMELINE_ROWS = 200;
/** Models that can be chosen from. */
export const MODELS_SHOWN = 200;
/** Providers in the table. */
export const PROVIDERS_SHOWN = 100;
/** Machines of one kind that can be chosen from. */
export const INSTANCES_SHOWN = 200;
/** Characters of a diagram. */
export const DIAGRAM_CHARACTERS = 2_000_000;

export const RETRY_FIRST_MS = 250;
export const RETRY_MAX_MS = 5000;
/** An address that does not answer. */
export const ASK_MS = 30_000;
/** Between two readings of the present picture. */
export const REFRESH_MS = 150;
/** The slider must rest for this long before the past is asked for. */
export const TRAVEL_MS = 80;
/** How long an edge that was just walked is lit. */
export const FLASH_MS = 1200;
