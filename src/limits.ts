/**
 * Every bound of the daemon, with its unit (last in the name) and its reason. Those of `limitSpecs`
 * can be set in the configuration under `limits`, or as SVC_LIMIT_<NAME>. A test compares
 * docs/operations.md with that table, and another finds each name in a test.
 */

export interface LimitSpec {
  value: number;
  min: number;
  max: number;
  reason: string;
}

/** The numbers: the default, the least and the most. */
/* @__NO_SIDE_EFFECTS__ */
function limit([value, min, max]: readonly [number, number, number], reason: string): LimitSpec {
  return { value, min, max, reason };
}

/** Active runs of one local model, where `local_runs` is 0. */
export const LOCAL_RUNS = { least: 4, most: 8 };

const KIB = 1024;
const MIB = 1024 * KIB;

export const limitSpecs = {
  queue_runs: limit(
    [256, 1, 100_000],
    'Runs in the queue or active at one time. More get the error busy.',
  ),
  token_runs_percent: limit(
    [75, 1, 100],
    'Part of queue_runs that the tokens of programs take together, in percent. ' +
      'The home always has the rest.',
  ),
  active_runs: limit([64, 1, 4096], 'Active runs of all providers together.'),
  provider_runs: limit([16, 1, 1024], 'Active runs of one provider.'),
  local_runs: limit(
    [0, 0, 64],
    'Active runs of one local model. Each needs its share of the context memory. ' +
      '0: eight, or four where that needs more than half of the memory for models, or on a GPU.',
  ),
  run_attempts: limit([3, 1, 10], 'Attempts of one run that has no output yet.'),
  target_attempts: limit(
    [2, 1, 10],
    'Attempts at one target of a run that has another target after it.',
  ),
  target_wait_ms: limit(
    [60_000, 100, 3_600_000],
    'From the request to a provider to its first output, when the run has another target. ' +
      'Then the other target is called.',
  ),
  prompt_bytes: limit(
    [4 * MIB, 1, 256 * MIB],
    'The input of one run, which is kept in memory: its messages, images and tools.',
  ),
  run_messages: limit(
    [4096, 1, 100_000],
    'Messages of one run. They have at most twice as many parts: texts, images, tool calls, ' +
      'results.',
  ),
  tool_turns: limit([16, 1, 1000], 'Turns of one run in which the model calls tools that svc has.'),
  tool_calls: limit([64, 1, 10_000], 'Calls of such tools in one run.'),
  tool_calls_at_once: limit([4, 1, 64], 'Calls of one run that work at the same time.'),
  tool_ms: limit([120_000, 100, 86_400_000], 'For one call of a tool to end.'),
  approval_ms: limit(
    [86_400_000, 1000, 2_592_000_000],
    'For a person to allow a call of a tool. Then it is denied.',
  ),
  body_bytes: limit([8 * MIB, 1024, 512 * MIB], 'One HTTP request body, or one gRPC message.'),
  upload_bytes: limit([25 * MIB, 1024, 512 * MIB], 'One HTTP request body with a file of sound.'),
  run_ms: limit(
    [600_000, 1000, 86_400_000],
    'One run in total, unless --timeout sets another time.',
  ),
  queue_ms: limit([600_000, 1000, 86_400_000], 'Time in the queue.'),
  first_output_ms: limit(
    [300_000, 1000, 3_600_000],
    'From the request to a provider to its first output. A large model loads slowly.',
  ),
  idle_ms: limit([120_000, 1000, 3_600_000], 'Time between two outputs of a provider.'),
  cancel_grace_ms: limit(
    [10_000, 100, 600_000],
    'For the work of a cancelled run to stop. Then the run ends without it.',
  ),
  start_ms: limit(
    [60_000, 1000, 3_600_000],
    'From the start of the process to ready, and from one step of the recovery to the next.',
  ),
  drain_ms: limit([30_000, 0, 86_400_000], 'For active runs to end when the daemon stops.'),
  close_ms: limit(
    [20_000, 100, 600_000],
    'For the daemon to close its resources after the drain: ' +
      'longer than cancel_grace_ms and the engine together.',
  ),
  probe_ms: limit(
    [2_000, 50, 60_000],
    'For a provider to answer its probe. The start waits no longer for a remote one.',
  ),
  circuit_wait_max_ms: limit(
    [60_000, 100, 3_600_000],
    'The longest wait until a failed provider is tried again, unless it asks for a longer one.',
  ),
  probe_failures: limit(
    [3, 1, 100],
    'Failed probes or runs in a row until a provider or a model is not called for a while. ' +
      'So many models that fail close their provider.',
  ),
  answers_bytes: limit(
    [64 * MIB, 1024, 4096 * MIB],
    'Text of all answers in progress. Then the largest answer of the busiest provider is ' +
      'cut, and new runs wait.',
  ),
  embeddings: limit(
    [8, 1, 1024],
    'Requests for embeddings, reranking, transcripts or images at one time. ' +
      'More get the error busy.',
  ),
  embed_ms: limit(
    [300_000, 1000, 3_600_000],
    'One request for embeddings, reranking, transcripts or images. A large model loads slowly.',
  ),
  pulls: limit([2, 1, 16], 'Downloads at one time. More get the error busy.'),
  pull_failures: limit(
    [5, 1, 100],
    'Failed attempts of a download in a row without progress. Then the pull fails.',
  ),
  pull_idle_ms: limit(
    [60_000, 500, 3_600_000],
    'Time without progress: of the server during a download, of the disk during verification.',
  ),
  pull_connections: limit(
    [4, 1, 16],
    'Connections of one download. The server must send parts of a file, else it is one.',
  ),
  pull_spare_bytes: limit(
    [512 * MIB, 0, 1024 * 1024 * MIB],
    'Disk space that downloads leave free.',
  ),
  local_engines: limit(
    [8, 1, 64],
    'Local models in memory at one time. Each has its own engine process.',
  ),
  engine_load_ms: limit([300_000, 1000, 3_600_000], 'For the engine to load a model.'),
  engine_memory_bytes: limit(
    [4096 * MIB, 64 * MIB, 1_048_576 * MIB],
    'Memory of the engine process beyond the size of its model file. ' +
      'An engine that needs more is killed (Linux).',
  ),
  engine_quarantine_ms: limit(
    [3_600_000, 0, 2_592_000_000],
    'For which the daemon refuses a version of a model file that hung or killed the engine.',
  ),
  engine_idle_ms: limit(
    [300_000, 1000, 86_400_000],
    'Without work until the engine is unloaded and its memory is free.',
  ),
  mcp_start_ms: limit(
    [120_000, 500, 3_600_000],
    'For a tool server to start and to list its tools. Some are downloaded when they start.',
  ),
  mcp_idle_ms: limit([300_000, 1000, 86_400_000], 'Without a call until a tool server is stopped.'),
  mcp_result_bytes: limit(
    [256 * KIB, 1024, 16 * MIB],
    'Result of one call of a tool. A longer one is cut, and says so.',
  ),
  prompt_cache_bytes: limit(
    [4096 * MIB, 0, 1_048_576 * MIB],
    'Files of computed prompts of local models, together. The least recently used leave. ' +
      '0: none are kept.',
  ),
  engine_context_tokens: limit(
    [4096, 256, 1_048_576],
    'Context of one run in the local engine, prompt and answer together. ' +
      'The context of the model is the upper bound.',
  ),
  model_inspect_ms: limit(
    [10_000, 100, 600_000],
    'For reading the header of one model file. A file that needs longer is invalid.',
  ),
  output_tokens: limit(
    [2048, 1, 1_048_576],
    'Tokens of one answer, unless --max-tokens sets another number.',
  ),
  repetition_tokens: limit(
    [768, 0, 1_048_576],
    'Tokens after which an answer of a local model that repeats one sequence is ended, unless ' +
      '--repetition-tokens sets another number. 0: it continues.',
  ),
  lease_ms: limit(
    [10_000, 1000, 600_000],
    'The lease of a node in a fleet, by the clock of the database. ' +
      'After it, another node takes the runs over.',
  ),
  fleet_poll_ms: limit(
    [1000, 50, 60_000],
    'How often a node of a fleet asks the database for waiting runs, dead nodes and ' +
      'cancels, beside the notices.',
  ),
  commit_late_ms: limit(
    [5_000, 10, 600_000],
    'For one commit to reach the disk, and for the log to answer a read. Then the daemon is not ' +
      'ready until it does.',
  ),
  store_lock_ms: limit(
    [500, 0, 60_000],
    'For another process, such as a backup, to release the event log when the daemon starts.',
  ),
  store_connections: limit(
    [4, 1, 100],
    'Connections of one daemon to a PostgreSQL database, besides one for commits and one ' +
      'for notices.',
  ),
  store_answer_ms: limit(
    [10_000, 100, 600_000],
    'For that database to open a connection, and to answer one statement. ' +
      'Then the connection is closed.',
  ),
  reserve_bytes: limit(
    [8 * MIB, 65_536, 4096 * MIB],
    'Disk space of the reserve file, so that accepted runs can be recorded on a full disk.',
  ),
  inspect_bytes: limit(
    [2048 * MIB, MIB, 1_048_576 * MIB],
    'Largest event log of a dead daemon that the doctor copies and checks.',
  ),
  log_file_bytes: limit([16 * MIB, 4096, 4096 * MIB], 'One log file. Then a new one starts.'),
  log_files: limit([5, 1, 100], 'Log files, the current one included.'),
  unsent_bytes: limit(
    [256 * MIB, 65_536, 65_536 * MIB],
    'Unsent bytes of all connections together. From three quarters on new responses get the ' +
      'error busy. Above it the slowest clients are disconnected.',
  ),
  connections: limit(
    [512, 4, 65_536],
    'Connections to one listener with authenticated requests in progress.',
  ),
  spare_connections: limit(
    [64, 4, 65_536],
    'Connections to one listener beyond these, for health and for signing in. ' +
      'When all are in use, the daemon closes one without the token.',
  ),
  address_connections: limit(
    [64, 1, 65_536],
    'HTTP connections without the token from one other machine. A new one closes its oldest.',
  ),
  request_ms: limit([60_000, 100, 3_600_000], 'For a client to send its whole request.'),
  heartbeat_ms: limit(
    [15_000, 100, 600_000],
    'Between two heartbeats on a stream. A peer that misses two is disconnected.',
  ),
  reconnect_ms: limit(
    [120_000, 100, 86_400_000],
    'From the first lost connection until a command that follows a run gives up. ' +
      'Its --timeout sets another time.',
  ),
  tokens: limit([100, 1, 10_000], 'Tokens of programs, which each request is compared with.'),
  session_ms: limit([43_200_000, 1000, 2_592_000_000], 'Lifetime of a browser session.'),
} as const satisfies Record<string, LimitSpec>;

/**
 * Bounds that no user has a reason to set. They were settings once, so a configuration may have
 * them: it has no effect, and the daemon and the doctor warn of it.
 */
export const fixedLimits = {
  /** Lifetime of a ticket. */
  ticket_ms: 60_000,
  /** Between two progress events of one pull. */
  pull_progress_ms: 1_000,
  /** Without much work until the daemon frees the memory that it does not need. */
  memory_idle_ms: 10_000,
  /** Between two checks whether the files of the TLS certificate have changed. */
  certificate_look_ms: 60_000,
  /**
   * For a blocked event log to recover while the daemon stops. Then the daemon exits without the
   * last events.
   */
  stop_blocked_ms: 3_000,
  /**
   * For which a loaded model answers its runs at least, while runs wait for the memory of another
   * model.
   */
  engine_turn_ms: 20_000,
  /** For the engine to exit. Then it is killed. */
  engine_stop_ms: 3_000,
  /** Until a failed provider is tried with one request. It doubles each time that this fails. */
  circuit_wait_ms: 2_000,
  /**
   * Until one request tries again a key that was refused, or an account without credit. It doubles
   * each time that this fails.
   */
  refused_wait_ms: 10_000,
  /**
   * The longest wait after refused credentials or a used-up quota. A provider that asks for a wait
   * gets no longer one.
   */
  circuit_wait_long_ms: 300_000,
  /** For a PDF file in the process that reads it: a small file can unpack to a large one. */
  document_memory_bytes: 512 * MIB,
  /**
   * Values in one HTTP request body, or one gRPC request: texts, numbers, objects and lists. Each
   * is checked.
   */
  request_values: 100_000,
  /** One request on the local socket, or twice prompt_bytes where that is more. */
  message_bytes: 16 * MIB,
  /** Tools of one run. Clients with many servers have hundreds. */
  run_tools: 1024,
  /** Unfinished runs that a start recovers in one step. Each step is committed. */
  recover_runs: 500,
  /**
   * Deaths of the engine in a row while it computed one run alone, without new text between them.
   * Then the run fails. So many deaths of the daemon in a row, without new text, interrupt a run of
   * another provider: its answer may end each boot.
   */
  run_losses: 8,
  /**
   * Deaths of the daemon, or of the tool server, in a row at one call. Then it is `lost`, and a
   * person decides. That costs little, so these are few.
   */
  call_losses: 3,
  /** Tools of one server. The others are left out. */
  mcp_tools: 256,
  /** Headers of one HTTP request. A browser sends the cookies of every port of the host. */
  header_bytes: 65_536,
  /** For the engine process to start. */
  engine_start_ms: 30_000,
  /** CPU time of one chat template. The template is part of the model file and may never end. */
  engine_template_ms: 10_000,
  /** For a tool server to exit. Then it is killed. */
  mcp_stop_ms: 5_000,
  /** From one renewal of the lease of a node to the next. Three of them fit in a lease. */
  lease_renew_ms: 3_000,
  /** PDF files that wait to be read. One is read at a time. */
  documents: 16,
  /** Pages of one PDF file in a request. */
  document_pages: 1000,
  /** For reading the text of one PDF file. */
  document_ms: 30_000,
  /** Between two probes of a local provider that has changed. */
  probe_every_ms: 15_000,
  /** Changes and runs of one conversation that a program made. Each request reads them. */
  conversation_entries: 10_000,
  /**
   * Between two probes of a local provider that has not changed for long. The time grows up to
   * this.
   */
  probe_idle_ms: 300_000,
  /** For a connection to a remote provider to open. */
  provider_connect_ms: 10_000,
  /**
   * From the finish reason of an answer to its usage. Then the answer is complete without it.
   */
  provider_usage_ms: 3_000,
  /** From the end of an answer to the end of its response. Then the connection is closed. */
  provider_end_ms: 1_000,
  /** Headers of one response of a remote provider. */
  provider_header_bytes: 65_536,
  /** One event in the stream of a remote provider. */
  provider_event_bytes: 1 * MIB,
  /** Text of one answer of a remote provider: its text, reasoning, arguments and tokens. */
  provider_answer_bytes: 16 * MIB,
  /** Parts of one answer of a remote provider, such as tool calls. */
  provider_answer_parts: 1024,
  /**
   * One whole answer of a remote provider on the wire, where each piece of text is an event.
   */
  provider_stream_bytes: 256 * MIB,
  /** One response of a remote provider with the vectors of at most 128 texts. */
  provider_vectors_bytes: 16 * MIB,
  /** Texts of one request for embeddings or reranking. */
  embed_texts: 2048,
  /** The same texts together. */
  embed_text_bytes: 4 * MIB,
  /** Numbers in all vectors of one embedding request. Each needs 8 bytes. */
  embed_numbers: 8 * MIB,
  /** An answer that was passed on, in which the tokens of its request are looked for. */
  passed_answer_bytes: 4 * MIB,
  /** Bytes read of an error of a remote provider. */
  provider_error_bytes: 65_536,
  /** List of models of a remote provider. */
  provider_list_bytes: 4 * MIB,
  /** Listed models of one remote provider. */
  provider_models: 2000,
  /** Redirects of one request. */
  pull_redirects: 5,
  /** The least size that one more connection fetches. A smaller file has one connection. */
  pull_range_bytes: 32 * MIB,
  /** Pages of the list of one repository. An empty one may lead to the next without an end. */
  pull_list_pages: 100,
  /** List of the files of one repository. */
  pull_list_bytes: 2 * MIB,
  /** One model file. */
  pull_bytes: 1024 * 1024 * MIB,
  /** Bytes between two fsyncs of a download: the most that a power cut can lose. */
  pull_sync_bytes: 256 * MIB,
  /** Header of a downloaded model file, before the weights. */
  model_header_bytes: 64 * MIB,
  /** Listed model files of the models folder. */
  local_models: 500,
  /**
   * Longest turn of a model that loads slowly. A turn lasts three times as long as the load,
   * within this bound.
   */
  engine_turn_max_ms: 300_000,
  /** One message of a tool server. A longer one ends the server. */
  mcp_message_bytes: 16 * MIB,
  /** Bytes that a tool server sends between two answers. More ends the server. */
  mcp_stream_bytes: 64 * MIB,
  /**
   * Requests of a tool server at one time, and answers to them that it has not taken. svc
   * refuses these requests. One more may come after 250 ms. A server with more is ended.
   */
  mcp_requests: 64,
  /**
   * Notifications of a tool server at one time, answers that no one waits for, and lines that
   * are not messages. One more may come after 1 ms. A server with more is ended.
   */
  mcp_notices: 4096,
  /** For a person to log in at a tool server with a browser. */
  mcp_login_ms: 600_000,
  /** One request of such a login, or of its refresh, and its answer. */
  mcp_oauth_ms: 30_000,
  mcp_oauth_bytes: 32 * KIB,
  /**
   * Least time between two recorded reports of one call. It grows to a twentieth of the time of the
   * call.
   */
  tool_report_ms: 1_000,
  /** Parts of one result of a tool. The others are left out. */
  mcp_result_parts: 256,
  /**
   * Images and sounds of one result, as characters of base64. The others are left out. Anthropic's
   * API takes no larger image.
   */
  mcp_files_bytes: 5 * MIB,
  /** Description of one tool. A longer one is cut. */
  mcp_description_bytes: 8 * KIB,
  /** Schema of one tool. A tool with a larger one is left out. */
  mcp_schema_bytes: 64 * KIB,
  /** Descriptions and schemas of all tools of one server. Tools after that are left out. */
  mcp_tools_bytes: 1 * MIB,
  /** For judging the arguments of one call by the schema of its tool, which is foreign. */
  tool_judge_ms: 5_000,
  /** JavaScript heap of a process that judges. Beyond it the process is killed. */
  tool_judge_bytes: 128 * MIB,
  /** Such processes at one time. A tool server has one call judged at a time. */
  tool_judges: 2,
  /** Without a call until such a process ends. A model needs less for its next turn. */
  tool_judge_idle_ms: 60_000,
  /** The errors of invalid arguments that a model gets. A schema can cause any number. */
  tool_problem_chars: 2_000,
  /** A file that a tool of svc reads or writes. */
  file_tool_bytes: 4 * MIB,
  /** Names of one folder that it looks at, lines that it finds, and time of a search. */
  file_tool_entries: 1000,
  file_tool_matches: 200,
  file_tool_ms: 10_000,
  /** A page that a tool of svc gets, unpacked. */
  http_tool_bytes: 2 * MIB,
  http_tool_ms: 30_000,
  http_tool_redirects: 5,
  /** Log lines of one process of a tool server. The rest is dropped. */
  mcp_log_lines: 1000,
  /** Log lines of one engine process. The rest is dropped. */
  engine_log_lines: 1000,
  /** Metadata of one model file that `svc model show` prints. */
  model_metadata_bytes: 1 * MIB,
  /** Events of one commit. The rest waits for the next commit. */
  commit_events: 4096,
  /**
   * Durable events that one turn of the event loop makes visible. The rest follows in the next
   * turns.
   */
  publish_events: 64,
  /** Events that wait for their commit. Then new runs get the error busy. */
  pending_events: 65_536,
  /**
   * Recent events in memory for followers of the whole log. Older ones are read from the log.
   */
  feed_events: 4096,
  /** Text of the same events, and of the pages that are being sent to followers. */
  feed_bytes: 16 * MIB,
  /** Followers of the whole event log at one time. Each keeps up to one page in memory. */
  event_followers: 64,
  /**
   * Output of one run that waits for its commit. Then the daemon stops reading from its
   * provider.
   */
  output_buffer_bytes: 1 * MIB,
  /** One page of events from the log. A larger event is a page by itself. */
  store_page_bytes: 256 * 1024,
  /**
   * Between two checks by commits that the files of the event log are in their folder. Every
   * commit finds a removed file.
   */
  store_look_ms: 100,
  /** Between two such checks of an idle daemon. */
  store_look_idle_ms: 1000,
  /** For which a read waits for a database that is away. Then it fails with store_stalled. */
  store_wait_ms: 5_000,
  /** Between two tries to reach that database. A commit is tried until it is there again. */
  store_retry_ms: 500,
  /**
   * Between two statements of one transaction. Then the database ends it: the whole fleet may
   * wait for a lock of a node that stopped there.
   */
  store_idle_ms: 2000,
  /**
   * Size of a finished run that is deleted before smaller ones, once the event log exceeds
   * history.keep_bytes.
   */
  history_large_bytes: 4 * MIB,
  /**
   * For which a smaller finished run is kept, unless the event log exceeds twice
   * history.keep_bytes.
   */
  history_young_ms: 86_400_000,
  /** Between two rounds that delete history beyond its bounds. */
  prune_every_ms: 600_000,
  /** Between two rounds of the slow check of the whole event log. */
  verify_every_ms: 86_400_000,
  /** Between two parts of that check. Each has at most 500 events. */
  verify_pause_ms: 100,
  /**
   * Largest event log that each start checks in full. For a larger one the slow check
   * continues.
   */
  verify_start_bytes: 64 * MIB,
  /** One log line. The rest is cut. */
  log_line_bytes: 65_536,
  /** Lines that wait for one slow follower. Then it gets the number of dropped lines. */
  log_follow_lines: 1024,
  /** Text of the same lines. */
  log_follow_bytes: 1 * MIB,
  /** Log tails that are sent at one time. More get the error busy. */
  log_tails: 16,
  /** Lines of one `svc logs --tail`. */
  log_tail_lines: 100_000,
  /** Log text that one search reads. Then it reports that it stopped there. */
  log_search_bytes: 128 * MIB,
  /**
   * gRPC calls without the token at one time, over all connections. The oldest one ends for a
   * new one.
   */
  public_calls: 1024,
  /**
   * gRPC calls without the token that one connection may begin at once. Each comes back after
   * 100 ms. A connection with more is closed.
   */
  connection_calls: 32,
  /**
   * From one new gRPC connection that is served to the next one, beyond 16 at once. A call
   * without the token counts as one more. A connection whose client shows the token does not
   * count.
   */
  newcomer_ms: 2,
  /** Requests of one HTTP connection. Then it is closed after the response. */
  connection_requests: 1000,
  /**
   * For which an HTTP connection stays open after an answer, at least. Clients keep it for their
   * next request, most for 90 s at most. Some do not look whether it was closed, and that request
   * fails.
   */
  connection_idle_ms: 95_000,
  /** Unanswered requests of one HTTP connection. A connection with more is closed. */
  open_requests: 16,
  /** One WebSocket message of a client that only reads. The daemon expects none. */
  client_frame_bytes: 1024,
  /** A WebSocket for responses. Then its client opens another one, as with OpenAI. */
  talk_ms: 3_600_000,
  /**
   * For the TLS handshake of a connection. It counts as a connection without the token until
   * then.
   */
  handshake_ms: 10_000,
  /** For a client to send its request headers. */
  header_ms: 10_000,
  /** For a browser to send the body of a sign-in. */
  sign_in_ms: 5_000,
  /**
   * Bytes of a refused request that are read and dropped, so that the client can read the
   * response.
   */
  discard_bytes: 64 * MIB,
  /** For the rest of a refused request to arrive. Then its connection is closed. */
  discard_ms: 10_000,
  /** For clients to read the last bytes when a listener closes. Then they are disconnected. */
  close_grace_ms: 1_000,
  /** Between two log lines about refused requests. */
  refusal_log_ms: 10_000,
  /** Between two tries to bind the other loopback address while another program uses it. */
  port_again_ms: 5_000,
  /** Open tickets for the console at one time. */
  console_tickets: 16,
  /** Browsers signed in to the console at one time. One more signs the oldest out. */
  console_sessions: 64,
  /** Largest exported run that `svc runs replay` reads. */
  replay_bytes: 32 * MIB,
  /** Runs in one snapshot of the daemon, present or past. */
  snapshot_runs: 200,
  /** Prompts and answers in one snapshot; of further runs only their beginning is shown. */
  snapshot_text_bytes: 4 * MIB,
  /** Runs in one page of history. */
  page_runs: 100,
  /** Text of the same runs. A page has at least one run. */
  page_bytes: 1 * MIB,
};

export type LimitName = keyof typeof limitSpecs;
export type Limits = Record<LimitName | keyof typeof fixedLimits, number>;

/**
 * Without the mark, each quick command would build the object. Two spreads would take ten times the
 * memory.
 */
/* @__NO_SIDE_EFFECTS__ */
function joinLimits(): Limits {
  const values = Object.entries(limitSpecs).map(([name, spec]) => [name, spec.value]);
  return Object.assign(Object.fromEntries(values) as Record<LimitName, number>, fixedLimits);
}

export const defaultLimits = joinLimits();

/** The bounds of one JSON text. The cost of parsing depends on these, and little on its bytes. */
export interface JsonBudget {
  /** Objects and lists in one another. */
  levels: number;
  /** Texts, numbers, objects and lists. */
  values: number;
  /** Numbers in lists of numbers. Absent: they are values. */
  numbers?: number;
  /** Absent: the source of the text bounds them. */
  bytes?: number;
}

/**
 * The budgets of JSON that others send, by the door that it comes through. The figures are the
 * worst text within the bound: many short keys that all differ.
 */
export const jsonBudgets = {
  /** Texts that svc reads itself, such as an event of an answer: 30 ms and 12 MB. */
  foreign: { levels: 64, values: 100_000 },
  /** A list of models or files: 20,000 of 12 values each. 100 ms and 28 MB. */
  list: { levels: 64, values: 250_000 },
  /** The vectors of one batch: 128 texts of 8192 numbers. 50 ms and 20 MB. */
  vectors: { levels: 64, values: 10_000, numbers: MIB },
  /**
   * Texts that the schemas of a third-party package check: 0.6 s for one wrong value in each place
   * of a union, which costs up to 60 µs.
   */
  package: { levels: 64, values: 10_000 },
  /** Vectors that such a schema checks number by number: 24 of 4096 numbers. 0.3 s and 30 MB. */
  package_vectors: { levels: 64, values: 10_000, numbers: 100_000 },
  /** Tokens of a text, of a server that svc started: 15 ms and 8 MB. */
  tokens: { levels: 64, values: 100_000, numbers: MIB },
  /** A message of a tool server. A result of 256 KiB has less. 100 ms with long keys. */
  tool_message: { levels: 64, values: 50_000, numbers: 250_000 },
  /** Schema of one tool. Each level of it is a call of the code that walks it. */
  tool_schema: { levels: 32, values: 10_000 },
} as const satisfies Record<string, JsonBudget>;

/** Bounds of the configuration file itself. They apply before it is read, so it cannot set them. */
export const CONFIG_BYTES_MAX = MIB;
export const CONFIG_DEPTH_MAX = 16;
/** A Modelfile: a template and a licence have some 10 KiB. `models.json` has to hold several. */
export const MODELFILE_BYTES_MAX = 256 * KIB;
export const MODELFILE_LINES_MAX = 10_000;
/** Tool servers in `mcp.json`. */
export const MCP_SERVERS_MAX = 64;
/** For one look at the health of a server that svc starts. */
export const SERVER_HEALTH_MS = 2000;
/** From the break of a connection of such a server to its exit, if that is the reason. */
export const SERVER_EXIT_SEEN_MS = 1000;
/** Texts of the command that starts a server. */
export const COMMAND_WORDS_MAX = 256;
/** Headers that a provider can be given. */
export const PROVIDER_HEADERS_MAX = 32;
/** A file with the key of a provider. Keys have some hundred bytes; a token of a cloud has more. */
export const KEY_FILE_BYTES_MAX = 65_536;
/** One line of a log that is imported: an event or a record. A text has no more in Node.js. */
export const IMPORT_LINE_BYTES_MAX = 500 * MIB;
/** A certificate with its chain, or its key, is a few kilobytes. */
export const CERTIFICATE_BYTES_MAX = MIB;
/** Headers of one HTTP request; a browser sends 20. Each costs memory before the token is read. */
export const HEADERS_MAX = 100;
/** Between two looks at how far a model is loaded, for a client that follows its run. */
export const LOAD_LOOK_MS = 200;
/** For the start to know the names of the local models: a folder of the network may not answer. */
export const FIRST_LIST_MS = 15_000;
/**
 * For a list of the local models to have the headers of new files. A process reads one after the
 * other, in 0.2 to 1 s each; a header not read by then is `not_checked`.
 */
export const LOCAL_LIST_MS = 10_000;
/** For another process to finish its edit of the file. */
export const CONFIG_LOCK_MS = 5_000;
/** The diff of a call that waits for a person, who reads no longer one. */
export const APPROVAL_DIFF_BYTES_MAX = 256 * KIB;
/** To compute it, in the thread of the daemon. */
export const APPROVAL_DIFF_MS = 200;
/** States of conversations in memory, and the characters that programs added to one of them. */
export const FOLDED_CONVERSATIONS = 32;
export const FOLDED_CHARACTERS = 256 * KIB;
/** Without a key before a question is shown: who still types means something else. */
export const QUESTION_QUIET_MS = 400;
