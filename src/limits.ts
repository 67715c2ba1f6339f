/**
 * Every bound of the daemon, with its unit (last in the name) and its reason. All can be set in the configuration
 * under `limits`, or as SVC_LIMIT_<NAME>; docs/operations.md lists them and a test holds it to this table.
 */

export interface LimitSpec {
  value: number;
  min: number;
  max: number;
  reason: string;
}

const limit = (value: number, min: number, max: number, reason: string): LimitSpec => ({
  value,
  min,
  max,
  reason,
});
const MIB = 1024 * 1024;

export const limitSpecs = {
  queue_runs: limit(
    256,
    1,
    100_000,
    'Runs queued or active at one time; more are refused as busy.',
  ),
  active_runs: limit(64, 1, 4096, 'Runs being answered at one time, all providers together.'),
  provider_runs: limit(16, 1, 1024, 'Runs being answered at one time by one provider.'),
  local_runs: limit(
    4,
    1,
    64,
    'Runs being answered at one time by the local engine; each takes its share of the context memory.',
  ),
  run_attempts: limit(3, 1, 10, 'Attempts of one run while nothing was delivered.'),
  run_losses: limit(
    8,
    0,
    1000,
    'Deaths of the engine in a row while it computed one run alone, without new text between them; then the run is given up. Deaths of the daemon do not count.',
  ),
  prompt_bytes: limit(
    4 * MIB,
    1,
    256 * MIB,
    'One prompt with its system text; more is almost surely a mistake, and is held in memory.',
  ),
  body_bytes: limit(8 * MIB, 1024, 512 * MIB, 'One HTTP request body.'),
  message_bytes: limit(16 * MIB, 1024, 512 * MIB, 'One request on the local socket.'),
  run_ms: limit(600_000, 1000, 86_400_000, 'One run in total, unless --timeout says less or more.'),
  queue_ms: limit(600_000, 1000, 86_400_000, 'Waiting in the queue.'),
  first_output_ms: limit(
    300_000,
    1000,
    3_600_000,
    'From asking a provider to its first output: a large model loads slowly.',
  ),
  idle_ms: limit(120_000, 1000, 3_600_000, 'Silence between two outputs of a provider.'),
  cancel_grace_ms: limit(
    10_000,
    100,
    600_000,
    'For the work to stop once a run is cancelled; then it is given up.',
  ),
  start_ms: limit(
    60_000,
    1000,
    3_600_000,
    'From the first instant of the daemon to ready, and from one step of the recovery to the next.',
  ),
  recover_runs: limit(
    500,
    1,
    100_000,
    'Unfinished runs that a start recovers in one step; each step is progress, and what it did is durable.',
  ),
  drain_ms: limit(30_000, 0, 86_400_000, 'For active runs to end when the daemon stops.'),
  close_ms: limit(
    20_000,
    100,
    600_000,
    'For the daemon to release what it holds after the drain: longer than cancel_grace_ms and the engine together.',
  ),
  probe_ms: limit(
    2_000,
    50,
    60_000,
    'For a provider to answer its probe; the start waits no longer either.',
  ),
  probe_every_ms: limit(15_000, 500, 3_600_000, 'Between two probes of a local provider.'),
  probe_failures: limit(
    3,
    1,
    100,
    'Failed probes in a row until a provider that worked counts as unavailable.',
  ),
  provider_connect_ms: limit(
    10_000,
    100,
    120_000,
    'For a connection to a remote provider to open.',
  ),
  provider_header_bytes: limit(
    65_536,
    1024,
    16 * MIB,
    'Headers of one response of a remote provider.',
  ),
  provider_event_bytes: limit(
    1 * MIB,
    1024,
    256 * MIB,
    'One event in the stream of a remote provider.',
  ),
  provider_answer_bytes: limit(
    16 * MIB,
    1024,
    256 * MIB,
    'Text of one answer of a remote provider.',
  ),
  provider_stream_bytes: limit(
    256 * MIB,
    1024,
    4096 * MIB,
    'One whole answer of a remote provider as it comes over the wire: each piece of text is in an event.',
  ),
  answers_bytes: limit(
    64 * MIB,
    1024,
    4096 * MIB,
    'Text of all answers in progress; then the largest of the provider that sends most is cut, and new runs wait.',
  ),
  provider_error_bytes: limit(
    65_536,
    1024,
    16 * MIB,
    'Error of a remote provider that is read; the rest is left.',
  ),
  provider_list_bytes: limit(4 * MIB, 1024, 256 * MIB, 'List of models of a remote provider.'),
  provider_models: limit(
    2000,
    1,
    100_000,
    'Models of one remote provider that are listed; the rest is left out.',
  ),
  pulls: limit(2, 1, 16, 'Models being fetched at one time; more are refused as busy.'),
  pull_failures: limit(
    5,
    1,
    100,
    'Failed attempts to fetch a model in a row that got no further, until it is given up.',
  ),
  pull_idle_ms: limit(
    60_000,
    500,
    3_600_000,
    'Silence of the other side while a model is fetched, or of the disk while it is verified.',
  ),
  pull_progress_ms: limit(
    1_000,
    10,
    60_000,
    'Least time between two facts of progress of one pull.',
  ),
  pull_redirects: limit(5, 0, 20, 'Redirects that are followed for one request.'),
  pull_list_bytes: limit(2 * MIB, 1024, 256 * MIB, 'List of the files of one repository.'),
  pull_bytes: limit(1024 * 1024 * MIB, MIB, 1024 * 1024 * 1024 * MIB, 'One model file.'),
  pull_sync_bytes: limit(
    256 * MIB,
    4096,
    1024 * 1024 * MIB,
    'Fetched between two times that the disk is waited for: what a power cut can cost.',
  ),
  pull_spare_bytes: limit(
    512 * MIB,
    0,
    1024 * 1024 * MIB,
    'Disk space that fetching a model leaves free.',
  ),
  model_header_bytes: limit(
    64 * MIB,
    4096,
    4096 * MIB,
    'What stands before the weights in a model file that was fetched.',
  ),
  engine_start_ms: limit(30_000, 1000, 600_000, 'For the engine process to come up.'),
  engine_load_ms: limit(300_000, 1000, 3_600_000, 'For the engine to load a model.'),
  engine_template_ms: limit(
    10_000,
    100,
    600_000,
    'Computing that the chat template of a model may take; the template is part of the file, and may never end.',
  ),
  engine_memory_bytes: limit(
    4096 * MIB,
    64 * MIB,
    1_048_576 * MIB,
    'Memory of the engine process of its own, besides as much as its model file has on disk; an engine that takes more is ended (Linux).',
  ),
  engine_quarantine_ms: limit(
    3_600_000,
    0,
    2_592_000_000,
    'For which a version of a model file that hung or killed the engine while it was loaded is refused.',
  ),
  engine_stop_ms: limit(3_000, 100, 60_000, 'For the engine to end when asked; then it is killed.'),
  engine_idle_ms: limit(
    300_000,
    1000,
    86_400_000,
    'Without work until the engine is unloaded and its memory given back.',
  ),
  engine_context_tokens: limit(
    4096,
    256,
    1_048_576,
    'Context of one run at the local engine, prompt and answer together; a model with less has less.',
  ),
  engine_log_lines: limit(
    1000,
    10,
    1_000_000,
    'Lines that one life of the engine process may print into the log; the rest is left out.',
  ),
  local_models: limit(
    500,
    1,
    10_000,
    'Model files of the models folder that are listed; the rest is left out.',
  ),
  model_metadata_bytes: limit(
    1 * MIB,
    1024,
    64 * MIB,
    'Metadata of one model file that `svc model show` reads; what is more is left out.',
  ),
  model_inspect_ms: limit(
    10_000,
    100,
    600_000,
    'For the head of one model file to be read; a file that takes longer counts as invalid.',
  ),
  output_tokens: limit(
    2048,
    1,
    1_048_576,
    'Tokens of one answer unless --max-tokens says otherwise.',
  ),
  commit_events: limit(
    4096,
    1,
    100_000,
    'Facts gathered for one commit; the rest waits for the next.',
  ),
  commit_late_ms: limit(
    5_000,
    10,
    600_000,
    'For one commit to reach the disk; then the daemon is not ready until it does.',
  ),
  stop_blocked_ms: limit(
    3_000,
    10,
    600_000,
    'For a log that cannot be written to take facts again while the daemon stops; then the daemon ends without them.',
  ),
  pending_events: limit(
    65_536,
    16,
    1_000_000,
    'Facts waiting for their commit; then new runs are refused as busy.',
  ),
  feed_events: limit(
    4096,
    16,
    1_000_000,
    'Recent events kept in memory for those who follow the whole log; older ones are read from it.',
  ),
  feed_bytes: limit(
    16 * MIB,
    65_536,
    1024 * MIB,
    'The same events, by their texts; and as much again of the pages that followers are being sent.',
  ),
  event_followers: limit(
    64,
    1,
    4096,
    'Followers of the whole event log at one time; each may hold one page of it.',
  ),
  output_buffer_bytes: limit(
    1 * MIB,
    1024,
    256 * MIB,
    'Output of one run waiting for its commit; then its provider is read no further.',
  ),
  store_lock_ms: limit(
    500,
    0,
    60_000,
    'For another process to let go of the event log when the daemon starts.',
  ),
  store_page_bytes: limit(
    256 * 1024,
    1024,
    256 * MIB,
    'Events read from the log at one time; the rest is the next page. A larger event is a page of its own.',
  ),
  store_look_ms: limit(
    100,
    0,
    60_000,
    'Between two looks of the commits whether the files of the event log are still in their folder. A removed file is found by each commit.',
  ),
  store_look_idle_ms: limit(
    1000,
    10,
    3_600_000,
    'Between two such looks of a daemon that commits nothing.',
  ),
  reserve_bytes: limit(
    8 * MIB,
    65_536,
    4096 * MIB,
    'Disk space held in reserve, so that what was accepted can be recorded when the disk is full.',
  ),
  prune_every_ms: limit(
    600_000,
    1000,
    86_400_000,
    'Between two rounds in which history beyond its bounds is removed.',
  ),
  history_large_bytes: limit(
    4 * MIB,
    1024,
    1024 * MIB,
    'Finished run that goes before smaller ones when the event log is larger than history.keep_bytes.',
  ),
  history_young_ms: limit(
    86_400_000,
    0,
    2_592_000_000,
    'For a smaller finished run to stay, unless the event log takes twice history.keep_bytes.',
  ),
  verify_every_ms: limit(
    86_400_000,
    1000,
    2_592_000_000,
    'From one round of the slow check of the whole event log to the next.',
  ),
  verify_pause_ms: limit(
    100,
    1,
    60_000,
    'Between two parts of that check; each has at most 500 events.',
  ),
  verify_start_bytes: limit(
    64 * MIB,
    0,
    1_048_576 * MIB,
    'Event log that is checked at each start; of a larger one the round before goes on.',
  ),
  inspect_bytes: limit(
    2048 * MIB,
    MIB,
    1_048_576 * MIB,
    'Event log of a dead daemon that the doctor copies to check it; a larger one is not checked.',
  ),
  log_file_bytes: limit(16 * MIB, 4096, 4096 * MIB, 'One log file; then a new one is begun.'),
  log_files: limit(5, 1, 100, 'Log files kept, the present one included.'),
  log_line_bytes: limit(65_536, 256, 16 * MIB, 'One log line; the rest is cut.'),
  log_follow_lines: limit(
    1024,
    16,
    100_000,
    'Lines waiting for one slow follower; then it is told how many it missed.',
  ),
  log_follow_bytes: limit(1 * MIB, 65_536, 256 * MIB, 'The same lines, by their length.'),
  log_tails: limit(
    16,
    1,
    1024,
    'Tails of the log being sent at one time; more are refused as busy.',
  ),
  log_tail_lines: limit(100_000, 1, 10_000_000, 'Lines that one `svc logs --tail` may ask for.'),
  log_search_bytes: limit(
    128 * MIB,
    65_536,
    65_536 * MIB,
    'Log that one search for lines reads; then it says that it went no further.',
  ),
  unsent_bytes: limit(
    256 * MIB,
    65_536,
    65_536 * MIB,
    'Held for clients that have not read it yet, all connections together; from three quarters on new answers are refused as busy, above it the slowest are cut off.',
  ),
  connections: limit(
    512,
    4,
    65_536,
    'Connections to one listener at one time; over HTTP, those with authenticated requests under way; over gRPC, the oldest makes room.',
  ),
  spare_connections: limit(
    64,
    4,
    65_536,
    'HTTP connections beyond these, for health and for signing in. When all are taken, a client without the token makes room.',
  ),
  address_connections: limit(
    64,
    1,
    65_536,
    'HTTP connections without the token from one other machine; its next one closes its oldest.',
  ),
  connection_requests: limit(
    1000,
    1,
    1_000_000,
    'Requests of one HTTP connection in its life; then it is closed after the answer.',
  ),
  open_requests: limit(
    16,
    1,
    1024,
    'Requests of one HTTP connection that are not answered and sent; one with more is closed.',
  ),
  client_frame_bytes: limit(
    1024,
    125,
    1 * MIB,
    'One WebSocket message of a client; nothing is expected of it.',
  ),
  header_ms: limit(10_000, 100, 600_000, 'For a client to send its request headers.'),
  header_bytes: limit(
    65_536,
    1024,
    1 * MIB,
    'Headers of one HTTP request: a browser sends the cookies of every port of the host.',
  ),
  request_ms: limit(60_000, 100, 3_600_000, 'For a client to send its whole request.'),
  sign_in_ms: limit(5_000, 100, 60_000, 'For a browser to send the body of a sign-in.'),
  discard_bytes: limit(
    64 * MIB,
    0,
    4096 * MIB,
    'Of a refused request that are read and thrown away, so that its client can take the answer.',
  ),
  discard_ms: limit(
    10_000,
    100,
    600_000,
    'For the rest of a refused request to come; then its connection is closed.',
  ),
  refusal_log_ms: limit(10_000, 100, 3_600_000, 'Between two log lines about refused requests.'),
  port_again_ms: limit(
    5_000,
    10,
    3_600_000,
    'Between two tries to bind the other loopback address while another program holds it.',
  ),
  heartbeat_ms: limit(
    15_000,
    100,
    600_000,
    'Between two signs of life on a stream; a peer that misses two is let go.',
  ),
  reconnect_ms: limit(
    120_000,
    100,
    86_400_000,
    'From the first loss of the daemon until a command that follows a run gives up, while it is lost again and again; its --timeout says otherwise.',
  ),
  close_grace_ms: limit(
    1_000,
    10,
    60_000,
    'For clients to take the last bytes when a listener closes; then they are cut off.',
  ),
  memory_idle_ms: limit(
    10_000,
    100,
    3_600_000,
    'Without much work until the daemon gives back the memory that it needs no more.',
  ),
  console_tickets: limit(16, 1, 1024, 'Tickets for the console that are open at one time.'),
  ticket_ms: limit(60_000, 1000, 3_600_000, 'For a ticket to be used.'),
  console_sessions: limit(
    64,
    1,
    4096,
    'Browsers signed in to the console at one time; one more signs the oldest out.',
  ),
  session_ms: limit(43_200_000, 1000, 2_592_000_000, 'For a browser to stay signed in.'),
  replay_bytes: limit(32 * MIB, 1024, 1024 * MIB, 'Exported run that `svc runs replay` reads.'),
  snapshot_runs: limit(200, 1, 10_000, 'Runs in one snapshot of the daemon, present or past.'),
  snapshot_text_bytes: limit(
    4 * MIB,
    1024,
    256 * MIB,
    'Prompts and answers in one snapshot; of further runs only their beginning is shown.',
  ),
  page_runs: limit(100, 1, 1000, 'Runs in one page of history.'),
  page_bytes: limit(
    1 * MIB,
    1024,
    256 * MIB,
    'The same runs, by their texts; a page ends there, with one run at least.',
  ),
} as const satisfies Record<string, LimitSpec>;

export type LimitName = keyof typeof limitSpecs;
export type Limits = Record<LimitName, number>;

export const defaultLimits: Limits = Object.fromEntries(
  Object.entries(limitSpecs).map(([name, spec]) => [name, spec.value]),
) as Limits;

/** Bounds of the configuration file itself; they apply before it is read, so they cannot be set. */
export const CONFIG_BYTES_MAX = MIB;
export const CONFIG_DEPTH_MAX = 16;
/** For another process that is editing the file to be done. */
export const CONFIG_LOCK_MS = 5_000;
