/**
 * Every error of a user, with its HTTP status, gRPC status, exit code, type and hint. Code throws a
 * code, and each transport renders it from this table. A test compares docs/errors.md with it.
 */

export interface ErrorSpec {
  http: number;
  /** Name of the canonical gRPC status. */
  grpc: string;
  exit: number;
  type:
    | 'invalid_request_error'
    | 'authentication_error'
    | 'not_found_error'
    | 'conflict_error'
    | 'rate_limit_error'
    | 'insufficient_quota'
    | 'overloaded_error'
    | 'provider_error'
    | 'server_error'
    | 'timeout_error';
  retryable: boolean;
  /** An error from a provider: over HTTP its status overrides `http`, if it begins so. */
  keepsStatus?: 4 | 5 | 'any';
  /** The meaning. */
  meaning: string;
  /** The remedy. */
  hint: string;
}

type Family = Omit<ErrorSpec, 'meaning' | 'hint'>;

/** Errors that share their statuses: each has its meaning, its hint, and the differences. */
const family =
  (shared: Family) =>
  (meaning: string, hint: string, own: Partial<Family> = {}): ErrorSpec => ({
    ...shared,
    ...own,
    meaning,
    hint,
  });

const invalid = family({
  http: 400,
  grpc: 'INVALID_ARGUMENT',
  exit: 2,
  type: 'invalid_request_error',
  retryable: false,
});
const unavailable = family({
  http: 503,
  grpc: 'UNAVAILABLE',
  exit: 4,
  type: 'server_error',
  retryable: true,
});
const unknown = family({
  http: 404,
  grpc: 'NOT_FOUND',
  exit: 7,
  type: 'not_found_error',
  retryable: false,
});
const providerFault: Family = {
  http: 502,
  grpc: 'UNAVAILABLE',
  exit: 9,
  type: 'provider_error',
  retryable: true,
};
const provider = family(providerFault);
/** An answer of a provider about the request, with its status. */
const byProvider = family({ ...providerFault, retryable: false, keepsStatus: 4 });
const startup = family({
  http: 500,
  grpc: 'INTERNAL',
  exit: 1,
  type: 'server_error',
  retryable: false,
});

export const errors = {
  usage: invalid('The command line was not understood.', 'Run the command with --help.'),
  invalid_request: invalid(
    'The request has a wrong form.',
    'Correct the named field and send the request again.',
  ),
  prompt_missing: invalid(
    'There is no prompt, neither as an argument nor on stdin.',
    'Try: svc run "What is svc?"',
  ),
  prompt_too_large: invalid(
    'The prompt is larger than the daemon accepts.',
    'Shorten it, or raise the limit prompt_bytes.',
    { http: 413 },
  ),
  prompt_not_text: invalid(
    'The prompt is not UTF-8 text, or has NUL bytes.',
    'Convert the input to UTF-8 text first.',
  ),
  body_too_large: invalid(
    'The request body is larger than the daemon accepts.',
    'Send less, or raise the limit body_bytes; of a form, upload_bytes.',
    { http: 413 },
  ),
  context_length_exceeded: invalid(
    'Prompt and answer do not fit the context of the model.',
    'Shorten the prompt, lower --max-tokens, raise --context of a local model, ' +
      'or use another model.',
    { keepsStatus: 4 },
  ),
  idempotency_conflict: invalid(
    'The idempotency key was used for another request.',
    'Use a new key for a new request.',
    { http: 422, type: 'conflict_error' },
  ),
  unauthorised: {
    http: 401,
    grpc: 'UNAUTHENTICATED',
    exit: 5,
    type: 'authentication_error',
    retryable: false,
    meaning: 'The request has no token, or a wrong one.',
    hint: 'Send the token that `svc token` prints, as Authorization: Bearer or as x-api-key.',
  },
  scope_insufficient: {
    http: 403,
    grpc: 'PERMISSION_DENIED',
    exit: 5,
    type: 'authentication_error',
    retryable: false,
    meaning: 'The scope of the token does not include this request.',
    hint:
      'Use a token with the named scope. Create one with: svc token create --name <name> ' +
      '--scope <scope>',
  },
  rate_limited: {
    http: 429,
    grpc: 'RESOURCE_EXHAUSTED',
    exit: 8,
    type: 'rate_limit_error',
    retryable: true,
    meaning: 'The token has sent as many requests as it may.',
    hint:
      'Try again after the time in Retry-After. See the bounds of each token with: ' +
      'svc token list',
  },
  token_unknown: unknown('There is no token of this name.', 'See: svc token list', { exit: 2 }),
  token_exists: invalid(
    'There is a token of this name already.',
    'Choose another name, or remove the old one with: svc token revoke <name>',
    { http: 409, grpc: 'ALREADY_EXISTS', type: 'conflict_error' },
  ),
  forbidden_origin: {
    http: 403,
    grpc: 'PERMISSION_DENIED',
    exit: 5,
    type: 'authentication_error',
    retryable: false,
    meaning: 'The daemon does not accept the Host or Origin of the request.',
    hint:
      'Use 127.0.0.1, or send the token. Another name is allowed with the setting allowed_hosts, ' +
      'and the page of another origin with allowed_origins.',
  },
  route_unknown: unknown(
    'There is no such route.',
    'GET /openapi.json lists the routes; so does docs/http.md.',
    { exit: 2 },
  ),
  method_not_allowed: invalid(
    'The route does not accept this method.',
    'Use a method of the Allow header.',
    { http: 405, grpc: 'UNIMPLEMENTED' },
  ),
  upgrade_required: invalid(
    'The route is a WebSocket.',
    'Connect to it with a WebSocket client, or use: svc logs',
    { http: 426, grpc: 'FAILED_PRECONDITION' },
  ),
  request_timed_out: invalid(
    'The request did not arrive in time.',
    'Send the whole request again without a pause.',
    { http: 408, grpc: 'DEADLINE_EXCEEDED', type: 'timeout_error', retryable: true },
  ),
  headers_too_large: invalid(
    'The request headers are larger than the daemon accepts.',
    'Send fewer headers. In a browser, delete the cookies of this host.',
    { http: 431, grpc: 'RESOURCE_EXHAUSTED' },
  ),
  too_many_connections: unavailable(
    'All connections of the daemon are in use.',
    'Close some and try again, or raise the limit connections.',
  ),
  run_unknown: unknown('There is no run with this id.', 'List them with: svc runs list', {
    exit: 2,
  }),
  approval_unknown: unknown(
    'No call with this id waits for a decision: its run may have ended.',
    'List them with: svc approvals list',
    { exit: 2 },
  ),
  approval_decided: {
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    exit: 2,
    type: 'conflict_error',
    retryable: false,
    meaning: 'The call does not wait any more: it was decided, or its run is ending.',
    hint: 'See what became of it: svc runs show <run>',
  },
  tool_unknown: invalid(
    'A tool server has no tool of this name.',
    'List its tools with: svc mcp show <server>',
    { exit: 7 },
  ),
  tool_lost: unavailable(
    'The connection to a tool server broke, and the result of a call is not known.',
    'Decide what becomes of it: svc approvals list',
    { retryable: false },
  ),
  tool_given_up: unavailable(
    'The daemon ended again and again while it worked on a call, so it does not try it by itself.',
    'Decide what becomes of it: svc approvals list',
    { retryable: false },
  ),
  tool_limit: unavailable(
    'The model called tools more often than one run may.',
    'Ask for less at once, or raise the limits tool_turns and tool_calls.',
    { exit: 10, retryable: false },
  ),
  tool_call_invalid: unavailable(
    'The model called tools in a wrong way, and again after it had the error.',
    'Choose a model that knows tools better. See: svc model list',
    { exit: 10, retryable: false },
  ),
  tool_loop: unavailable(
    'The model repeated one call of a tool, with the same result each time.',
    'Choose another model, or say in the prompt what to do with the result.',
    { exit: 10, retryable: false },
  ),
  thread_not_found: unknown(
    'A request of a thread follows a message that the log does not have.',
    'Send the whole conversation, with thread: {"type": "create"}.',
    { exit: 2 },
  ),
  previous_response_not_found: invalid(
    'A response that the request continues is not there, or was not stored.',
    'Leave previous_response_id out, and send the whole conversation in input.',
  ),
  websocket_connection_limit_reached: invalid(
    'A WebSocket for responses is open as long as one may be.',
    'Open another one, and continue with previous_response_id or the whole conversation.',
  ),
  run_ambiguous: invalid('Several runs have an id that begins like this.', 'Write more of the id.'),
  conversation_unknown: unknown(
    'No program made this conversation, or it was deleted.',
    'Make one with POST /v1/conversations, or leave the field out.',
    { exit: 2 },
  ),
  conversation_busy: invalid(
    'A run of the conversation has not ended yet.',
    'Wait for its answer, or cancel it: svc runs cancel <id>',
    { http: 409, grpc: 'ABORTED', exit: 8, type: 'conflict_error', retryable: true },
  ),
  run_unfinished: invalid(
    'The run has not ended yet.',
    'Cancel it with svc runs cancel <id>, or wait for its end.',
    { http: 409, grpc: 'FAILED_PRECONDITION', type: 'conflict_error' },
  ),
  run_continued: invalid(
    'Later turns of the conversation repeat the texts of the run.',
    'Remove them first, the newest first.',
    { http: 409, grpc: 'FAILED_PRECONDITION', type: 'conflict_error' },
  ),
  export_invalid: invalid(
    'The file is not an exported run that can be replayed.',
    'Write one with: svc runs export <id> --output run.json',
  ),
  import_invalid: invalid(
    'The file is not a whole log, so nothing was imported.',
    'Write it again with: svc export --output <file>',
  ),
  store_not_empty: invalid(
    'A log is imported only into an empty store, and this one has events.',
    'Name an empty database in store, or an empty home in SVC_HOME.',
    { http: 409, grpc: 'FAILED_PRECONDITION', type: 'conflict_error' },
  ),
  output_exists: invalid(
    'The output file exists already.',
    'Choose another name with --output, or move the file away.',
    { http: 409, grpc: 'ALREADY_EXISTS', type: 'conflict_error' },
  ),
  node_unknown: unknown('No node of this name has a lease.', 'See: svc nodes'),
  provider_unknown: unknown(
    'No provider of this name is configured.',
    'See: svc provider list. Add one with: svc provider add <id> --base-url <url>',
  ),
  mcp_unknown: unknown(
    'No tool server, or no tool, has this name.',
    'See: svc mcp list. Add a server with: svc mcp add <name> -- <command …>',
  ),
  mcp_exists: invalid(
    'A tool server of this name is configured already.',
    'Change it with svc mcp set, or remove it first with: svc mcp remove <name>',
    { http: 409, grpc: 'ALREADY_EXISTS', type: 'conflict_error' },
  ),
  mcp_unavailable: provider(
    'The tool server cannot be used, so the tool was not called.',
    'Test it: svc mcp test <name>. Its output is in: svc logs --level debug',
  ),
  mcp_login_needed: provider(
    'The tool server asks for a login, or refuses the one that svc has.',
    'Log in with a browser: svc mcp login <name>',
    { exit: 5, retryable: false },
  ),
  mcp_login_failed: provider(
    'The login at a tool server did not succeed, so nothing was stored.',
    'Try again: svc mcp login <name>. Where svc cannot register itself, give it the id that ' +
      'you registered: svc mcp set <name> --client-id <id>',
    { exit: 5, retryable: false },
  ),
  provider_exists: invalid(
    'A provider of this name is configured already.',
    'Remove it first with: svc provider remove <id>',
    { http: 409, grpc: 'ALREADY_EXISTS', type: 'conflict_error' },
  ),
  cloud_unconfigured: unknown(
    'No cloud provider is configured.',
    'Add one with: svc provider add openai --base-url https://api.openai.com/v1 --key-env ' +
      'OPENAI_API_KEY --model <model>',
    { http: 400, grpc: 'FAILED_PRECONDITION' },
  ),
  model_unknown: unknown(
    'The provider has no model of this name.',
    'See svc model list, or download one: svc model pull qwen3:0.6b',
  ),
  capability_missing: invalid(
    'The provider or the model cannot do what the request asks for.',
    'Choose a model that can (svc model list shows it), or leave that part out.',
    { grpc: 'FAILED_PRECONDITION', exit: 7 },
  ),
  model_invalid: unknown(
    'The file is not a model that the engine can load.',
    'Use a GGUF file of a text model. Download it again if it is incomplete.',
    { http: 422, grpc: 'FAILED_PRECONDITION' },
  ),
  model_changed: unknown(
    'The answer cannot continue: it was begun with another file, template or adapter of the model.',
    'Ask again. In a fleet, give each node the same files and settings of the model.',
    { http: 409, grpc: 'ABORTED' },
  ),
  model_quarantined: unknown(
    'A model file hung or killed the engine, or a server did not start. It is refused for a while.',
    'Of a model, download or copy the file again: a new version is tried at once. Of a server, ' +
      'correct its command. Their output is in: svc logs --level debug',
    { http: 422, grpc: 'FAILED_PRECONDITION' },
  ),
  model_too_large: unknown(
    'The model needs more memory than local models may use together.',
    'Use a smaller model or a smaller quantization, set a smaller ' +
      'limits.engine_context_tokens, or raise models_memory_bytes.',
    { http: 422, grpc: 'FAILED_PRECONDITION' },
  ),
  model_in_use: invalid(
    'The model is built in, or runs use it.',
    'Wait for the runs or cancel them, then try again.',
    { http: 409, grpc: 'FAILED_PRECONDITION', type: 'conflict_error' },
  ),
  pull_failed: provider(
    'The model, or the build of the engine, was not downloaded, or failed its check.',
    'Check the reference and the network, then run the command again.',
  ),
  pull_refused: provider(
    'The server refuses to send this model.',
    "Accept the model's terms on its page, then start the daemon with your token in " + 'HF_TOKEN.',
    { exit: 5, retryable: false },
  ),
  pull_cancelled: {
    http: 499,
    grpc: 'CANCELLED',
    exit: 130,
    type: 'invalid_request_error',
    retryable: false,
    meaning: 'The download was cancelled. The downloaded part is kept.',
    hint: 'Run the command again: it resumes where it stopped.',
  },
  model_exists: invalid(
    'Another model has this name.',
    'Name the new one with --name, or remove the old one with: svc model remove <id>',
    { http: 409, grpc: 'ALREADY_EXISTS', type: 'conflict_error' },
  ),
  busy: {
    http: 429,
    grpc: 'RESOURCE_EXHAUSTED',
    exit: 8,
    type: 'rate_limit_error',
    retryable: true,
    meaning: 'The queue of the daemon is full.',
    hint: 'Try again later, or raise the limit queue_runs.',
  },
  descriptors_exhausted: unavailable(
    'The daemon has as many files and connections open as the system allows.',
    'Close connections to the daemon, or raise its limit of open files (ulimit -n) and ' +
      'start it again. It recovers by itself once some are free.',
    { grpc: 'RESOURCE_EXHAUSTED', exit: 8 },
  ),
  event_refused: {
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    exit: 4,
    type: 'conflict_error',
    retryable: false,
    meaning: 'The machine does not accept this event in its current state.',
    hint: 'See the state and its accepted events in the response.',
  },
  not_ready: unavailable('The daemon is not ready for runs.', 'See the reason with: svc health'),
  daemon_stopping: unavailable(
    'The daemon is stopping and accepts no new runs.',
    'Start it again with: svc start',
  ),
  daemon_not_running: unavailable(
    'No daemon answers on the local socket.',
    'Start it with: svc start',
    { exit: 3 },
  ),
  daemon_already_running: startup(
    'Another daemon uses this home.',
    'See it with: svc status. Stop it with: svc stop',
  ),
  lease_lost: unavailable(
    'Another node has taken over the runs of this one, because its lease ended.',
    'The daemon joins the fleet again by itself. See it with: svc nodes',
  ),
  connection_lost: unavailable(
    'The connection to the daemon ended before its response.',
    'See how it ended with: svc doctor',
    { exit: 10 },
  ),
  start_timed_out: startup(
    'The daemon did not become ready in time.',
    'See its log with: svc logs, or allow more time with --wait.',
    { exit: 4 },
  ),
  stop_timed_out: startup(
    'The daemon did not stop in time.',
    'Stop it at once with: svc stop --force',
  ),
  port_in_use: startup(
    'Another program listens on the address.',
    'Stop that program, or take any free port: svc config set http 127.0.0.1:0, and the same ' +
      'for grpc. For once: svc start --http <host:port>',
    { exit: 6 },
  ),
  address_refused: startup(
    'The daemon cannot bind the address, or other machines reach it without ' +
      'authentication or TLS.',
    'Use 127.0.0.1, or turn authentication on in the configuration.',
    { exit: 6 },
  ),
  certificate_invalid: startup(
    'The TLS certificate or its key cannot be used.',
    'Put a valid pair in PEM form at tls_cert and tls_key. Check it with: svc doctor',
    { exit: 6 },
  ),
  config_invalid: startup(
    'The configuration is invalid.',
    'Correct the named line, variable or flag. See the settings in docs/operations.md.',
    { exit: 6 },
  ),
  home_unusable: startup(
    'The daemon cannot write a folder of its home, or other users can read it.',
    'Correct its owner and mode (chmod 700), or choose another home with SVC_HOME.',
    { exit: 6 },
  ),
  keychain_unavailable: startup(
    'No keychain answers here.',
    'Unlock it, or store the key in a private file: svc provider key --store file',
    { exit: 6 },
  ),
  service_manager_failed: startup(
    'The service manager of this system refused.',
    'Read its words above. Without a service: svc start. To see the definition: ' +
      'svc service install --print',
    { exit: 6 },
  ),
  upgrade_refused: startup(
    'The other version of svc was not put into use, and this one stays in use.',
    'Stay with this version, and report what differs to those who made the other one.',
    { exit: 6 },
  ),
  node_too_old: startup(
    'This Node.js is older than svc needs.',
    'Install Node.js 24, or run svc through npx in a checkout: that uses its own Node.js.',
  ),
  program_replaced: startup(
    'A part of the program cannot be loaded: the program was replaced or removed while it runs.',
    'Restart the daemon: svc restart. If this stays, install svc again.',
    { http: 503, grpc: 'UNAVAILABLE' },
  ),
  store_foreign: startup(
    'The database is not an event log of svc, or a newer version wrote it.',
    'Move the file away, or choose another home with SVC_HOME.',
    { exit: 6 },
  ),
  store_corrupt: startup('The event log is damaged.', 'Copy the file first, then run: svc doctor'),
  store_tail_lost: startup(
    'The end of the event log is missing: it has fewer events than were committed.',
    'Run svc doctor. To continue without the lost events, write the word accept into the ' +
      'named file.',
  ),
  store_failed: startup(
    'The daemon cannot write the event log, so it commits no more events.',
    'Check the disk with svc doctor, then start the daemon again.',
  ),
  store_full: unavailable(
    'The disk is full: the event log cannot grow.',
    'Free some space: the daemon then accepts runs again.',
    { http: 507, grpc: 'RESOURCE_EXHAUSTED' },
  ),
  run_unconfirmed: unavailable(
    'The event log failed while the run was created. It is unknown whether the run ' +
      'exists, and the daemon stops.',
    'Start the daemon again, then send the request again with the same idempotency key: ' +
      'that returns the run if it exists. Without a key, look first: svc runs list',
  ),
  store_stalled: unavailable(
    'The disk or the database does not respond, so the event log cannot be used now.',
    'Check the disk or the database. The daemon continues once it responds. ' +
      'Then send the request again, with its idempotency key if it had one.',
  ),
  engine_missing: startup(
    'llama.cpp is not available for this platform.',
    'Run svc doctor, or install again without --omit=optional.',
    { exit: 9 },
  ),
  engine_unavailable: startup(
    'The libraries of llama.cpp are not those of this version of svc.',
    'Install svc again, so that its packages have the versions that it names.',
    { exit: 9 },
  ),
  engine_crashed: provider(
    'The engine process died.',
    'Run it again. If it happens again, see: svc logs, svc doctor',
  ),
  engine_killed: provider(
    'Something outside svc killed the engine while it loaded the model.',
    'The system does that when memory is short: see svc doctor. Close other programs, ' +
      'or use a smaller model or --context.',
  ),
  engine_timed_out: provider(
    'The engine took longer than one of its limits allows.',
    'Try another model. If it took long to load, raise the limit engine_load_ms.',
    { http: 504, grpc: 'DEADLINE_EXCEEDED' },
  ),
  engine_failed: provider('The engine failed to answer.', 'See: svc logs --run <run>', {
    retryable: false,
  }),
  provider_unreachable: provider(
    'The provider does not respond at its address.',
    'Check that it runs and that its address is right: svc provider test <provider>',
  ),
  provider_address_unknown: provider(
    'The name in the address of the provider cannot be looked up.',
    'Check its address in svc provider list, and whether this machine is online.',
    { retryable: false },
  ),
  provider_tls_failed: provider(
    'The connection to the provider cannot be secured: its certificate or its TLS is wrong.',
    'Check its address in svc provider list. For a private certificate set ' +
      'NODE_EXTRA_CA_CERTS and run: svc restart',
    { retryable: false },
  ),
  provider_timed_out: provider(
    'The provider took too long.',
    'Try again, or ask for less at one time.',
    { http: 504, grpc: 'DEADLINE_EXCEEDED' },
  ),
  provider_silent: provider(
    'The provider did not begin to answer in time.',
    'Raise the limit first_output_ms for a slow model, or check it with: ' +
      'svc provider test <provider>',
    { http: 504, grpc: 'DEADLINE_EXCEEDED', exit: 124, type: 'timeout_error' },
  ),
  provider_stalled: provider(
    'The provider stopped sending in the middle of its answer.',
    'Ask again, or raise the limit idle_ms for a slow model.',
    { http: 504, grpc: 'DEADLINE_EXCEEDED', exit: 124, type: 'timeout_error' },
  ),
  provider_unavailable: provider(
    'The provider failed several times in a row, so it is not called for a short time.',
    'Wait until it is tried again, or try it now with: svc provider test <provider>',
    { http: 503 },
  ),
  provider_unauthorised: byProvider(
    'The provider refused the credentials that svc has for it, or none are set. The token for ' +
      'svc was accepted.',
    'Store its key with svc provider key <provider>, then check it with svc provider test ' +
      '<provider>.',
    { http: 401, grpc: 'UNAUTHENTICATED', exit: 5, type: 'authentication_error' },
  ),
  provider_forbidden: byProvider(
    'The provider knows the key, and does not allow this request with it.',
    'Check on its pages what the key may do, or choose another model or provider.',
    { http: 403, grpc: 'PERMISSION_DENIED', exit: 5, type: 'authentication_error' },
  ),
  provider_busy: byProvider(
    'The provider takes no more requests now, because there were too many.',
    'Wait, or use another provider. See when it is tried again with: svc provider list',
    { http: 429, grpc: 'RESOURCE_EXHAUSTED', type: 'rate_limit_error', retryable: true },
  ),
  provider_quota_exceeded: provider(
    'The credit or the quota of the account at the provider is used up.',
    'Check the plan and the bills on its pages, or use another provider.',
    { http: 429, grpc: 'RESOURCE_EXHAUSTED', type: 'insufficient_quota', retryable: false },
  ),
  provider_overloaded: byProvider(
    'The provider is overloaded or down for maintenance.',
    'Try again later, or use another provider.',
    { keepsStatus: 5, http: 503, type: 'overloaded_error', retryable: true },
  ),
  provider_failed: provider(
    'The provider responded with an error.',
    'Try again, or check it with: svc provider test <provider>',
  ),
  provider_conflict: provider(
    'The provider reports a conflict with another request.',
    'Try again.',
  ),
  provider_rejected: byProvider(
    'The provider rejected the request.',
    'Read its message: often it does not know the model or a parameter.',
    { http: 400, grpc: 'INVALID_ARGUMENT', type: 'invalid_request_error' },
  ),
  budget_spent: {
    http: 402,
    grpc: 'RESOURCE_EXHAUSTED',
    exit: 8,
    type: 'rate_limit_error',
    retryable: false,
    meaning: 'Runs at cloud providers have used the budget of this day.',
    hint:
      'Wait for the next day (UTC), raise budget_per_day or budget_tokens_per_day, or ask a ' +
      'local model.',
  },
  price_unknown: invalid(
    'There is a budget, and the model has no price, so its cost cannot be counted.',
    'Set its price in the configuration under prices, by provider/model or provider/*.',
  ),
  provider_not_found: provider(
    'The provider has nothing at this address.',
    'Check its address in svc provider list: it usually ends in /v1.',
    { retryable: false },
  ),
  provider_too_large: byProvider(
    'The request is larger than the provider takes.',
    'Shorten the prompt, or send smaller images.',
    { http: 413, grpc: 'INVALID_ARGUMENT', type: 'invalid_request_error' },
  ),
  content_filtered: byProvider(
    'A content filter refused the request, or cut the answer.',
    'Ask in other words, or use another model.',
    { http: 400, grpc: 'INVALID_ARGUMENT', exit: 10, type: 'invalid_request_error' },
  ),
  answer_empty: provider('The answer has no text.', 'Ask again, or in other words.', { exit: 10 }),
  answer_cut: provider(
    'The answer ends early: the context of the model, or the longest answer, is reached.',
    'Shorten the prompt, or use a model with a longer context.',
    { exit: 10, retryable: false },
  ),
  answer_not_json: provider(
    'The request asked for JSON, and the answer is not JSON.',
    'Ask again, or use a model that svc can hold to JSON, such as a local one.',
    { exit: 10 },
  ),
  answer_wrong_form: provider(
    'The answer does not have the requested form, such as its schema.',
    'Ask again, or use a model that svc can hold to the form, such as a local one.',
    { exit: 10 },
  ),
  targets_failed: provider(
    'A run had several targets, and none of them answered.',
    'See the error of each of them: svc runs why <run>',
    { keepsStatus: 'any' },
  ),
  provider_adapter_missing: provider(
    "The package of the provider's adapter is not installed, or cannot be used.",
    'Install the package that the message names, in the folder of adapters.',
    { http: 503, exit: 6, retryable: false },
  ),
  stream_truncated: provider(
    'The answer of the provider is incomplete.',
    'Ask again. See the run with: svc runs show <run>',
    { exit: 10 },
  ),
  stream_garbled: provider(
    'The provider sent something that cannot be understood, so its answer is incomplete.',
    'Check that its address is right and its adapter fits: svc provider test <provider>',
    { exit: 10, retryable: false },
  ),
  stream_oversized: provider(
    'The provider sent more in one piece, or in all, than the daemon takes.',
    'Ask for a shorter answer, such as with max_tokens. A limit that the message names can be ' +
      'raised.',
    { exit: 10, retryable: false },
  ),
  run_interrupted: unavailable(
    'The run was interrupted. The text so far is kept.',
    'See it with svc runs show <run>, or ask again.',
    { exit: 10 },
  ),
  run_given_up: unavailable(
    'The daemon ended again and again while it worked on the run, so it does not try it again.',
    'See the log of the daemon for why it ended: svc logs. To try it again, ask again.',
    { exit: 10, retryable: false },
  ),
  content_not_kept: unavailable(
    'The log does not keep prompts or outputs in full. An interrupted run cannot ' +
      'continue, and an answer cannot be read again.',
    'Ask again. The settings history.prompts, history.outputs and history.redact say what ' +
      'is kept.',
    { exit: 10 },
  ),
  resume_failed: unavailable(
    'The run was interrupted and cannot continue: another model wrote its text.',
    'See it with svc runs show <run>. Send the prompt again for a whole answer.',
    { exit: 10, retryable: false },
  ),
  run_cancelled: {
    http: 499,
    grpc: 'CANCELLED',
    exit: 130,
    type: 'invalid_request_error',
    retryable: false,
    meaning: 'The run was cancelled.',
    hint: 'Ask again when you like.',
  },
  run_timed_out: {
    http: 504,
    grpc: 'DEADLINE_EXCEEDED',
    exit: 124,
    type: 'timeout_error',
    retryable: true,
    meaning: 'The run reached its time limit.',
    hint: 'Give it more with --timeout.',
  },
  timed_out: {
    http: 504,
    grpc: 'DEADLINE_EXCEEDED',
    exit: 124,
    type: 'timeout_error',
    retryable: true,
    meaning: 'The daemon did not respond in time.',
    hint: 'See: svc status, svc logs',
  },
  internal: {
    http: 500,
    grpc: 'INTERNAL',
    exit: 1,
    type: 'server_error',
    retryable: false,
    meaning: 'An unexpected error occurred in svc.',
    hint: 'See: svc logs --level error',
  },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof errors;

export interface ErrorBody {
  code: ErrorCode;
  message: string;
  type: string;
  param: string | null;
  retryable: boolean;
  hint: string;
  docs: string;
  /** More that the caller can use: `state`, `accepted`, `known`, `retry_after_ms`, `status`. */
  details?: Record<string, unknown>;
}

/** The serialised form of an error in events and in messages of the engine process. */
export interface ErrorSummary {
  code: ErrorCode;
  message: string;
  retryable: boolean;
  param?: string;
  /** The remedy, if it differs from the table's. */
  hint?: string;
  /** HTTP status of the response of a provider, where an answer keeps it. */
  status?: number;
}

/** The effect of an error on the next attempt. The daemon uses it; clients see only `retryable`. */
export interface AttemptDetails {
  /** The same attempt may succeed later. Default: as the table says. */
  retryable: boolean;
  /** The wait that the other side asks for before the next attempt. */
  retryAfterMs: number | null;
  /** The work was cut off: a process died, or a stream broke. */
  lost: boolean;
  /**
   * Runs in the engine when it died, this one included. 0: it was stopped on purpose. Null:
   * unknown.
   */
  computing: number | null;
  /** The downloaded bytes are not the wanted file: delete them. */
  discard: boolean;
  /** HTTP status of the upstream's response. */
  status: number | null;
  /** The same request of a client would end so again: svc repeated it, or keeps its end. */
  settled: boolean;
}

export interface SvcErrorOptions extends Partial<AttemptDetails> {
  cause?: unknown;
  param?: string | undefined;
  hint?: string | undefined;
  details?: Record<string, unknown> | undefined;
}

/** An error with a code of the table. `message` is for the user; the cause goes to the log only. */
export class SvcError extends Error implements AttemptDetails {
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly hint: string;
  readonly details: Record<string, unknown> | undefined;
  readonly retryable: boolean;
  readonly retryAfterMs: number | null;
  readonly lost: boolean;
  readonly computing: number | null;
  readonly discard: boolean;
  readonly status: number | null;
  readonly settled: boolean;

  constructor(code: ErrorCode, message?: string, options: SvcErrorOptions = {}) {
    const spec = errors[code];
    super(
      message ?? spec.meaning,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'SvcError';
    this.code = code;
    this.param = options.param ?? null;
    this.hint = options.hint ?? spec.hint;
    this.details = options.details;
    this.retryable = options.retryable ?? spec.retryable;
    const wait = options.details?.retry_after_ms;
    this.retryAfterMs = options.retryAfterMs ?? (typeof wait === 'number' ? wait : null);
    this.lost = options.lost ?? false;
    this.computing = options.computing ?? null;
    this.discard = options.discard ?? false;
    this.status = options.status ?? null;
    this.settled = options.settled ?? false;
  }

  get spec(): ErrorSpec {
    return errors[this.code];
  }

  /** The status over HTTP. */
  get http(): number {
    return this.keptStatus ?? this.spec.http;
  }

  /** When a client may ask again: with each error that is retryable, and with no other. */
  get waitMs(): number | null {
    return this.retryable ? (this.retryAfterMs ?? RETRY_AFTER_MS) : null;
  }

  /** The provider's own status, if an answer keeps it. */
  private get keptStatus(): number | null {
    const { keepsStatus } = this.spec;
    const family = Math.floor((this.status ?? 0) / 100);
    const isKept = keepsStatus === 'any' ? family === 4 || family === 5 : family === keepsStatus;
    return isKept ? this.status : null;
  }

  /** The same error with other words, or another place. */
  with({ message, ...changes }: SvcErrorOptions & { message?: string }): SvcError {
    const { code, param, hint, details, retryable, retryAfterMs, lost, computing } = this;
    const { discard, status, settled, cause } = this;
    return new SvcError(code, message ?? this.message, {
      param: param ?? undefined,
      hint,
      details,
      retryable,
      retryAfterMs,
      lost,
      computing,
      discard,
      status,
      settled,
      cause,
      ...changes,
    });
  }

  /** The form for clients. */
  body(): ErrorBody {
    const body: ErrorBody = {
      code: this.code,
      message: this.message,
      type: this.spec.type,
      param: this.param,
      retryable: this.retryable,
      hint: this.hint,
      docs: `docs/errors.md#${this.code}`,
    };
    const { keptStatus: status, retryAfterMs } = this;
    const { retry_after_ms: _, ...others } = this.details ?? {};
    const details = {
      ...others,
      ...(status === null ? {} : { status }),
      ...(retryAfterMs === null || !this.retryable ? {} : { retry_after_ms: retryAfterMs }),
    };
    return Object.keys(details).length === 0 ? body : { ...body, details };
  }

  /** The form for events and for messages of the engine process. */
  summary(): ErrorSummary {
    const { code, message, retryable, param, hint, keptStatus: status } = this;
    return {
      code,
      message,
      retryable,
      ...(param === null ? {} : { param }),
      ...(hint === this.spec.hint ? {} : { hint }),
      ...(status === null ? {} : { status }),
    };
  }
}

/** The wait of an answer where no better one is known. */
export const RETRY_AFTER_MS = 1000;

/** A hint of the table with the ids that it is about. Without one its placeholder stays. */
export function fillHint(
  hint: string,
  { run, provider }: { run?: string; provider?: string },
): string {
  return hint
    .replaceAll('<run>', run ?? '<run>')
    .replaceAll('<provider>', provider ?? '<provider>');
}

/** Whether something thrown is an SvcError with one of the codes. */
export function hasCode<C extends ErrorCode>(
  thrown: unknown,
  ...codes: C[]
): thrown is SvcError & { readonly code: C } {
  return thrown instanceof SvcError && (codes as ErrorCode[]).includes(thrown.code);
}

/**
 * Whether the event log failed. Such an error says nothing about the work that was being recorded.
 */
export function isStoreError(thrown: unknown): boolean {
  return thrown instanceof SvcError && thrown.code.startsWith('store_');
}

/** An import of a file that the running program expects. */
const MISSING_PARTS = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND']);

/**
 * Anything thrown as an SvcError. The text of a foreign error stays in the cause. A module
 * that is loaded only when it is needed may be gone by then.
 */
export function asSvcError(
  thrown: unknown,
  fallback: ErrorCode = 'internal',
  message?: string,
): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const isMissing = MISSING_PARTS.has((thrown as NodeJS.ErrnoException | null)?.code ?? '');
  return isMissing && fallback === 'internal'
    ? new SvcError('program_replaced', undefined, { cause: thrown })
    : new SvcError(fallback, message, { cause: thrown });
}

/**
 * An error that was read from an event or came over a transport. An unknown code becomes
 * `internal`.
 */
export function fromBody(
  body: { [K in 'code' | 'message' | 'param' | 'hint']?: string | null | undefined } & {
    details?: Record<string, unknown>;
    retryable?: boolean;
    retry_after_ms?: number;
    status?: number;
  },
  attempt: Partial<AttemptDetails> = {},
): SvcError {
  const { code, message, param, hint, retryable } = body;
  const isKnown = code != null && Object.hasOwn(errors, code);
  const { retry_after_ms, status, ...details } = { ...numbersIn(body), ...body.details };
  return new SvcError(isKnown ? (code as ErrorCode) : 'internal', message ?? undefined, {
    param: param || undefined,
    hint: hint || undefined,
    details: Object.keys(details).length === 0 ? undefined : details,
    ...(typeof retryable === 'boolean' ? { retryable } : {}),
    ...(typeof retry_after_ms === 'number' ? { retryAfterMs: retry_after_ms } : {}),
    ...(typeof status === 'number' ? { status } : {}),
    ...attempt,
  });
}

/** An event has them beside the message; the error of a client has them in the details. */
function numbersIn({
  retry_after_ms,
  status,
}: {
  retry_after_ms?: number;
  status?: number;
}): Record<string, unknown> {
  return {
    ...(retry_after_ms === undefined ? {} : { retry_after_ms }),
    ...(status === undefined ? {} : { status }),
  };
}

/**
 * The error for an answer without the requested form. Null: it has the form. The answer
 * came and counts, so no client pays for another one unasked.
 */
export function formError({
  provider,
  finish_reason,
  form_problem,
}: {
  provider: string;
  finish_reason: string | null;
  form_problem?: string | undefined;
}): SvcError | null {
  if (finish_reason === 'not_json') {
    const message = `${provider} was asked for JSON, and answered with something else.`;
    return new SvcError('answer_not_json', message, { settled: true });
  }
  if (finish_reason !== 'wrong_form') return null;
  const why = form_problem === undefined ? '' : ` ${form_problem}`;
  const message = `The answer of ${provider} does not have the requested form.${why}`;
  return new SvcError('answer_wrong_form', message, { settled: true });
}
