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
/** Characters that are read as Markdown, and how deep its blocks may be. */
export const MARKDOWN_CHARACTERS = 60_000;
export const MARKDOWN_DEPTH = 20;
/** Conversations that a new chat offers to continue: at first, and for each request for more. */
export const RECENT_SHOWN = 30;
export const RECENT_MORE = 100;
/** Files of one question. */
export const FILES_MAX = 20;
/** Runs behind the charts of the overview. */
export const FIGURE_RUNS = 100;
/** Samples of the memory, one each time that the daemon is looked at. */
export const MEMORY_SAMPLES = 360;
/** Rows of the table of usage. */
export const USAGE_ROWS = 50;
/** Rows of a run's timeline: its first and its last events. */
export const TIMELINE_ROWS = 200;
/** Models to choose from, and in the table. */
export const MODELS_SHOWN = 200;
/** Providers in the table. */
export const PROVIDERS_SHOWN = 100;
/** Characters of the value of a setting. */
export const VALUE_CHARACTERS = 300;
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
/** Between two drawings of a growing answer: this, or longer when drawing takes long. */
export const DRAW_MS = 80;
/** How long a list takes no clicks after a part of it has left. */
export const SETTLE_MS = 500;
/** How long a button says that it has copied. */
export const COPIED_MS = 1500;
/** Between two looks at the daemon, and how long one may take. */
export const LOOK_MS = 5000;
export const LOOK_TIMEOUT_MS = 5000;
/** A run that took this long is announced when it ends and the page is hidden. */
export const LONG_RUN_MS = 10_000;
/** Between two looks at how far the model of a waiting run is loaded. */
export const LOAD_LOOK_MS = 1000;
/** The time that the charts show: at most this, and at least so many minutes. */
export const CHART_MS = 30 * 60_000;
export const CHART_MINUTES_MIN = 5;
/** A download, and a load of a model, may take this long. */
export const LONG_MS = 24 * 3_600_000;
