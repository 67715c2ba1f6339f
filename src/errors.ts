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
  /** The provider said it: over HTTP its status counts before `http`, if it begins so. */
  keepsStatus?: 4 | 5 | 'any';
  /** What it means. */
  meaning: string;
  /** What to do about it. */
  hint: string;
}

const invalid = {
  http: 400,
  grpc: 'INVALID_ARGUMENT',
  exit: 2,
  type: 'invalid_request_error',
  retryable: false,
} as const;
const unavailable = {
  http: 503,
  grpc: 'UNAVAILABLE',
  exit: 4,
  type: 'server_error',
  retryable: true,
} as const;
const unknown = {
  http: 404,
  grpc: 'NOT_FOUND',
  exit: 7,
  type: 'not_found_error',
  retryable: false,
} as const;
const provider = {
  http: 502,
  grpc: 'UNAVAILABLE',
  exit: 9,
  type: 'provider_error',
  retryable: true,
} as const;
/** What a provider says about the request, with the status that it says. */
const byProvider = { ...provider, retryable: false, keepsStatus: 4 } as const;
const startup = {
  http: 500,
  grpc: 'INTERNAL',
  exit: 1,
  type: 'server_error',
  retryable: false,
} as const;

export const errors = {
  usage: {
    ...invalid,
    meaning: 'The command line was not understood.',
    hint: 'Run the command with --help.',
  },
  invalid_request: {
    ...invalid,
    meaning: 'The request has a wrong form.',
    hint: 'Correct the named field and send the request again.',
  },
  prompt_missing: {
    ...invalid,
    meaning: 'There is no prompt, neither as an argument nor on stdin.',
    hint: 'Try: svc run "What is svc?"',
  },
  prompt_too_large: {
    ...invalid,
    http: 413,
    meaning: 'The prompt is larger than the daemon accepts.',
    hint: 'Shorten it, or raise the limit prompt_bytes.',
  },
  prompt_not_text: {
    ...invalid,
    meaning: 'The prompt is not UTF-8 text, or has NUL bytes.',
    hint: 'Convert the input to UTF-8 text first.',
  },
  body_too_large: {
    ...invalid,
    http: 413,
    meaning: 'The request body is larger than the daemon accepts.',
    hint: 'Send less, or raise the limit body_bytes; of a form, upload_bytes.',
  },
  context_length_exceeded: {
    ...invalid,
    keepsStatus: 4,
    meaning: 'Prompt and answer do not fit the context of the model.',
    hint: 'Shorten the prompt, lower --max-tokens, or use a model with a longer context.',
  },
  idempotency_conflict: {
    ...invalid,
    http: 422,
    type: 'conflict_error',
    meaning: 'The idempotency key was used for another request.',
    hint: 'Use a new key for a new request.',
  },
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
  token_unknown: {
    ...unknown,
    exit: 2,
    meaning: 'There is no token of this name.',
    hint: 'See: svc token list',
  },
  token_exists: {
    ...invalid,
    http: 409,
    grpc: 'ALREADY_EXISTS',
    type: 'conflict_error',
    meaning: 'There is a token of this name already.',
    hint: 'Choose another name, or remove the old one with: svc token revoke <name>',
  },
  forbidden_origin: {
    http: 403,
    grpc: 'PERMISSION_DENIED',
    exit: 5,
    type: 'authentication_error',
    retryable: false,
    meaning: 'The daemon does not accept the Host or Origin of the request.',
    hint:
      'Use 127.0.0.1. A page of this machine sends the token; another origin is allowed with ' +
      'the setting allowed_origins.',
  },
  route_unknown: {
    ...unknown,
    exit: 2,
    meaning: 'There is no such route.',
    hint: 'GET /openapi.json lists the routes; so does docs/http.md.',
  },
  method_not_allowed: {
    ...invalid,
    http: 405,
    grpc: 'UNIMPLEMENTED',
    meaning: 'The route does not accept this method.',
    hint: 'Use a method of the Allow header.',
  },
  upgrade_required: {
    ...invalid,
    http: 426,
    grpc: 'FAILED_PRECONDITION',
    meaning: 'The route is a WebSocket.',
    hint: 'Connect to it with a WebSocket client, or use: svc logs',
  },
  request_timed_out: {
    ...invalid,
    http: 408,
    grpc: 'DEADLINE_EXCEEDED',
    type: 'timeout_error',
    retryable: true,
    meaning: 'The request did not arrive in time.',
    hint: 'Send the whole request again without a pause.',
  },
  headers_too_large: {
    ...invalid,
    http: 431,
    grpc: 'RESOURCE_EXHAUSTED',
    meaning: 'The request headers are larger than the daemon accepts.',
    hint: 'Send fewer headers. In a browser, delete the cookies of this host.',
  },
  too_many_connections: {
    ...unavailable,
    meaning: 'All connections of the daemon are in use.',
    hint: 'Close some and try again, or raise the limit connections.',
  },
  run_unknown: {
    ...unknown,
    exit: 2,
    meaning: 'There is no run with this id.',
    hint: 'List them with: svc runs list',
  },
  approval_unknown: {
    ...unknown,
    exit: 2,
    meaning: 'No call with this id waits for a decision: its run may have ended.',
    hint: 'List them with: svc approvals list',
  },
  approval_decided: {
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    exit: 2,
    type: 'conflict_error',
    retryable: false,
    meaning: 'The call does not wait any more: it was decided, or its run is ending.',
    hint: 'See what became of it: svc runs show <run>',
  },
  tool_unknown: {
    ...invalid,
    exit: 7,
    meaning: 'A server of tools has no tool of this name.',
    hint: 'List its tools with: svc mcp show <server>',
  },
  tool_lost: {
    ...unavailable,
    retryable: false,
    meaning: 'The connection to a server of tools broke, and the result of a call is not known.',
    hint: 'Decide what becomes of it: svc approvals list',
  },
  tool_limit: {
    ...unavailable,
    exit: 10,
    retryable: false,
    meaning: 'The model called tools more often than one run may.',
    hint: 'Ask for less at once, or raise the limits tool_turns and tool_calls.',
  },
  tool_call_invalid: {
    ...unavailable,
    exit: 10,
    retryable: false,
    meaning: 'The model called tools in a wrong way, and again after it had the error.',
    hint: 'Choose a model that knows tools better. See: svc model list',
  },
  tool_loop: {
    ...unavailable,
    exit: 10,
    retryable: false,
    meaning: 'The model repeated one call of a tool, with the same result each time.',
    hint: 'Choose another model, or say in the prompt what to do with the result.',
  },
  thread_not_found: {
    ...unknown,
    exit: 2,
    meaning: 'A request of a thread follows a message that the log does not have.',
    hint: 'Send the whole conversation, with thread: {"type": "create"}.',
  },
  previous_response_not_found: {
    ...invalid,
    meaning: 'A response that the request continues is not there, or was not stored.',
    hint: 'Leave previous_response_id out, and send the whole conversation in input.',
  },
  websocket_connection_limit_reached: {
    ...invalid,
    meaning: 'A WebSocket for responses is open as long as one may be.',
    hint: 'Open another one, and continue with previous_response_id or the whole conversation.',
  },
  run_ambiguous: {
    ...invalid,
    meaning: 'Several runs have an id that begins like this.',
    hint: 'Write more of the id.',
  },
  conversation_unknown: {
    ...unknown,
    exit: 2,
    meaning: 'No program made this conversation, or it was deleted.',
    hint: 'Make one with POST /v1/conversations, or leave the field out.',
  },
  conversation_busy: {
    ...invalid,
    http: 409,
    grpc: 'ABORTED',
    exit: 8,
    type: 'conflict_error',
    retryable: true,
    meaning: 'A run of the conversation has not ended yet.',
    hint: 'Wait for its answer, or cancel it: svc runs cancel <id>',
  },
  run_unfinished: {
    ...invalid,
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    type: 'conflict_error',
    meaning: 'The run has not ended yet.',
    hint: 'Cancel it with svc runs cancel <id>, or wait for its end.',
  },
  run_continued: {
    ...invalid,
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    type: 'conflict_error',
    meaning: 'Later turns of the conversation repeat the texts of the run.',
    hint: 'Remove them first, the newest first.',
  },
  export_invalid: {
    ...invalid,
    meaning: 'The file is not an exported run that can be replayed.',
    hint: 'Write one with: svc runs export <id> --output run.json',
  },
  import_invalid: {
    ...invalid,
    meaning: 'The file is not a whole log, so nothing was imported.',
    hint: 'Write it again with: svc export --output <file>',
  },
  store_not_empty: {
    ...invalid,
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    type: 'conflict_error',
    meaning: 'A log is imported only into an empty store, and this one has events.',
    hint: 'Name an empty database in store, or an empty home in SVC_HOME.',
  },
  output_exists: {
    ...invalid,
    http: 409,
    grpc: 'ALREADY_EXISTS',
    type: 'conflict_error',
    meaning: 'The output file exists already.',
    hint: 'Choose another name with --output, or move the file away.',
  },
  node_unknown: {
    ...unknown,
    meaning: 'No node of this name has a lease.',
    hint: 'See: svc nodes',
  },
  provider_unknown: {
    ...unknown,
    meaning: 'No provider of this name is configured.',
    hint: 'See: svc provider list. Add one with: svc provider add <id> --base-url <url>',
  },
  mcp_unknown: {
    ...unknown,
    meaning: 'No server of tools, or no tool, has this name.',
    hint: 'See: svc mcp list. Add a server with: svc mcp add <name> -- <command …>',
  },
  mcp_exists: {
    ...invalid,
    http: 409,
    grpc: 'ALREADY_EXISTS',
    type: 'conflict_error',
    meaning: 'A server of tools of this name is configured already.',
    hint: 'Change it with svc mcp set, or remove it first with: svc mcp remove <name>',
  },
  mcp_unavailable: {
    ...provider,
    meaning: 'The server of tools cannot be used, so the tool was not called.',
    hint: 'Test it: svc mcp test <name>. What it prints is in: svc logs --level debug',
  },
  mcp_login_needed: {
    ...provider,
    exit: 5,
    retryable: false,
    meaning: 'The server of tools asks for a login, or refuses the one that svc has.',
    hint: 'Log in with a browser: svc mcp login <name>',
  },
  mcp_login_failed: {
    ...provider,
    exit: 5,
    retryable: false,
    meaning: 'The login at a server of tools did not succeed, so nothing was stored.',
    hint:
      'Try again: svc mcp login <name>. Where svc cannot register itself, give it the id that ' +
      'you registered: svc mcp set <name> --client-id <id>',
  },
  provider_exists: {
    ...invalid,
    http: 409,
    grpc: 'ALREADY_EXISTS',
    type: 'conflict_error',
    meaning: 'A provider of this name is configured already.',
    hint: 'Remove it first with: svc provider remove <id>',
  },
  cloud_unconfigured: {
    ...unknown,
    http: 400,
    grpc: 'FAILED_PRECONDITION',
    meaning: 'No cloud provider is configured.',
    hint:
      'Add one with: svc provider add openai --base-url https://api.openai.com/v1 --key-env ' +
      'OPENAI_API_KEY --model <model>',
  },
  model_unknown: {
    ...unknown,
    meaning: 'The provider has no model of this name.',
    hint: 'See svc model list, or download one: svc model pull qwen3:0.6b',
  },
  capability_missing: {
    ...invalid,
    grpc: 'FAILED_PRECONDITION',
    exit: 7,
    meaning: 'The provider or the model cannot do what the request asks for.',
    hint: 'Choose a model that can (svc model list shows it), or leave that part out.',
  },
  model_invalid: {
    ...unknown,
    http: 422,
    grpc: 'FAILED_PRECONDITION',
    meaning: 'The file is not a model that the engine can load.',
    hint: 'Use a GGUF file of a text model. Download it again if it is incomplete.',
  },
  model_changed: {
    ...unknown,
    http: 409,
    grpc: 'ABORTED',
    meaning: 'The answer cannot continue: it was begun with another file of the model.',
    hint: 'Ask again. In a fleet, pull or import the same file on each node.',
  },
  model_quarantined: {
    ...unknown,
    http: 422,
    grpc: 'FAILED_PRECONDITION',
    meaning:
      'The model file hung or killed the engine. This version of the file is refused for a while.',
    hint:
      'Download or copy the file again: a new version is tried at once. ' +
      'See the output of the engine with: svc logs --level debug',
  },
  model_too_large: {
    ...unknown,
    http: 422,
    grpc: 'FAILED_PRECONDITION',
    meaning: 'The model needs more memory than local models may use together.',
    hint:
      'Use a smaller model or a smaller quantization, set a smaller ' +
      'limits.engine_context_tokens, or raise models_memory_bytes.',
  },
  model_in_use: {
    ...invalid,
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    type: 'conflict_error',
    meaning: 'The model is built in, or runs use it.',
    hint: 'Wait for the runs or cancel them, then try again.',
  },
  pull_failed: {
    ...provider,
    meaning: 'The model, or the build of the engine, was not downloaded, or failed its check.',
    hint: 'Check the reference and the network, then run the command again.',
  },
  pull_refused: {
    ...provider,
    exit: 5,
    retryable: false,
    meaning: 'The server refuses to send this model.',
    hint:
      "Accept the model's terms on its page, then start the daemon with your token in " +
      'HF_TOKEN.',
  },
  pull_cancelled: {
    http: 499,
    grpc: 'CANCELLED',
    exit: 130,
    type: 'invalid_request_error',
    retryable: false,
    meaning: 'The download was cancelled. The downloaded part is kept.',
    hint: 'Run the command again: it goes on where it stopped.',
  },
  model_exists: {
    ...invalid,
    http: 409,
    grpc: 'ALREADY_EXISTS',
    type: 'conflict_error',
    meaning: 'Another model has this name.',
    hint: 'Name the new one with --name, or remove the old one with: svc model remove <id>',
  },
  busy: {
    http: 429,
    grpc: 'RESOURCE_EXHAUSTED',
    exit: 8,
    type: 'rate_limit_error',
    retryable: true,
    meaning: 'The queue of the daemon is full.',
    hint: 'Try again later, or raise the limit queue_runs.',
  },
  descriptors_exhausted: {
    ...unavailable,
    grpc: 'RESOURCE_EXHAUSTED',
    exit: 8,
    meaning: 'The daemon has as many files and connections open as the system allows.',
    hint:
      'Close connections to the daemon, or raise its limit of open files (ulimit -n) and ' +
      'start it again. It recovers by itself once some are free.',
  },
  event_refused: {
    http: 409,
    grpc: 'FAILED_PRECONDITION',
    exit: 4,
    type: 'conflict_error',
    retryable: false,
    meaning: 'The machine does not accept this event in its current state.',
    hint: 'See the state and its accepted events in the response.',
  },
  not_ready: {
    ...unavailable,
    meaning: 'The daemon is not ready for runs.',
    hint: 'See the reason with: svc health',
  },
  daemon_stopping: {
    ...unavailable,
    meaning: 'The daemon is stopping and accepts no new runs.',
    hint: 'Start it again with: svc start',
  },
  daemon_not_running: {
    ...unavailable,
    exit: 3,
    meaning: 'No daemon answers on the local socket.',
    hint: 'Start it with: svc start',
  },
  daemon_already_running: {
    ...startup,
    meaning: 'Another daemon uses this home.',
    hint: 'See it with: svc status. Stop it with: svc stop',
  },
  lease_lost: {
    ...unavailable,
    meaning: 'Another node has taken over the runs of this one, because its lease ended.',
    hint: 'The daemon joins the fleet again by itself. See it with: svc nodes',
  },
  connection_lost: {
    ...unavailable,
    exit: 10,
    meaning: 'The connection to the daemon ended before its response.',
    hint: 'See how it ended with: svc doctor',
  },
  start_timed_out: {
    ...startup,
    exit: 4,
    meaning: 'The daemon did not become ready in time.',
    hint: 'See its log with: svc logs, or allow more time with --wait.',
  },
  stop_timed_out: {
    ...startup,
    meaning: 'The daemon did not stop in time.',
    hint: 'Stop it at once with: svc stop --force',
  },
  port_in_use: {
    ...startup,
    exit: 6,
    meaning: 'Another program listens on the address.',
    hint:
      'Stop that program, or take any free port: svc config set http 127.0.0.1:0, and the same ' +
      'for grpc. For once: svc start --http <host:port>',
  },
  address_refused: {
    ...startup,
    exit: 6,
    meaning:
      'The daemon cannot bind the address, or other machines reach it without ' +
      'authentication or TLS.',
    hint: 'Use 127.0.0.1, or turn authentication on in the configuration.',
  },
  certificate_invalid: {
    ...startup,
    exit: 6,
    meaning: 'The TLS certificate or its key cannot be used.',
    hint: 'Put a valid pair in PEM form at tls_cert and tls_key. Check it with: svc doctor',
  },
  config_invalid: {
    ...startup,
    exit: 6,
    meaning: 'The configuration is invalid.',
    hint: 'Correct the named line, variable or flag. See the settings in docs/operations.md.',
  },
  home_unusable: {
    ...startup,
    exit: 6,
    meaning: 'The daemon cannot write a folder of its home, or other users can read it.',
    hint: 'Correct its owner and mode (chmod 700), or choose another home with SVC_HOME.',
  },
  keychain_unavailable: {
    ...startup,
    exit: 6,
    meaning: 'No keychain answers here.',
    hint: 'Unlock it, or store the key in a private file: svc provider key --store file',
  },
  service_manager_failed: {
    ...startup,
    exit: 6,
    meaning: 'The service manager of this system refused.',
    hint:
      'Read its words above. Without a service: svc start. To see the definition: ' +
      'svc service install --print',
  },
  upgrade_refused: {
    ...startup,
    exit: 6,
    meaning: 'The other version of svc was not put into use, and this one goes on.',
    hint: 'Stay with this version, and report what differs to those who made the other one.',
  },
  node_too_old: {
    ...startup,
    meaning: 'This Node.js is older than svc needs.',
    hint: 'Install Node.js 24, or run svc through npx in a checkout: that uses its own Node.js.',
  },
  program_replaced: {
    ...startup,
    http: 503,
    grpc: 'UNAVAILABLE',
    meaning:
      'A part of the program cannot be loaded: the program was replaced or removed while it runs.',
    hint: 'Restart the daemon: svc restart. If this stays, install svc again.',
  },
  store_foreign: {
    ...startup,
    exit: 6,
    meaning: 'The database is not an event log of svc, or a newer version wrote it.',
    hint: 'Move the file away, or choose another home with SVC_HOME.',
  },
  store_corrupt: {
    ...startup,
    meaning: 'The event log is damaged.',
    hint: 'Copy the file first, then run: svc doctor',
  },
  store_tail_lost: {
    ...startup,
    meaning: 'The end of the event log is missing: it has fewer events than were committed.',
    hint:
      'Run svc doctor. To continue without the lost events, write the word accept into the ' +
      'named file.',
  },
  store_failed: {
    ...startup,
    meaning: 'The daemon cannot write the event log, so it commits no more events.',
    hint: 'Check the disk with svc doctor, then start the daemon again.',
  },
  store_full: {
    ...unavailable,
    http: 507,
    grpc: 'RESOURCE_EXHAUSTED',
    meaning: 'The disk is full: the event log cannot grow.',
    hint: 'Free some space: the daemon then accepts runs again.',
  },
  run_unconfirmed: {
    ...unavailable,
    meaning:
      'The event log failed while the run was created. It is unknown whether the run ' +
      'exists, and the daemon stops.',
    hint:
      'Start the daemon again, then send the request again with the same idempotency key: ' +
      'that returns the run if it exists. Without a key, look first: svc runs list',
  },
  store_stalled: {
    ...unavailable,
    meaning: 'The disk or the database does not respond, so the event log cannot be used now.',
    hint:
      'Check the disk or the database. The daemon continues once it responds. ' +
      'Then send the request again, with its idempotency key if it had one.',
  },
  engine_missing: {
    ...startup,
    exit: 9,
    meaning: 'llama.cpp is not available for this platform.',
    hint: 'Run svc doctor, or install again without --omit=optional.',
  },
  engine_crashed: {
    ...provider,
    meaning: 'The engine process died.',
    hint: 'Run it again. If it happens again, see: svc logs, svc doctor',
  },
  engine_killed: {
    ...provider,
    meaning: 'Something outside svc killed the engine while it loaded the model.',
    hint:
      'The system does that when memory is short: see svc doctor. Close other programs, ' +
      'or use a smaller model or --context.',
  },
  engine_timed_out: {
    ...provider,
    http: 504,
    grpc: 'DEADLINE_EXCEEDED',
    meaning: 'The engine took longer than one of its limits allows.',
    hint: 'Try another model. If it took long to load, raise the limit engine_load_ms.',
  },
  engine_failed: {
    ...provider,
    retryable: false,
    meaning: 'The engine failed to answer.',
    hint: 'See: svc logs --run <run>',
  },
  provider_unreachable: {
    ...provider,
    meaning: 'The provider does not respond at its address.',
    hint: 'Check that it runs and that its address is right: svc provider test <provider>',
  },
  provider_address_unknown: {
    ...provider,
    retryable: false,
    meaning: 'The name in the address of the provider cannot be looked up.',
    hint: 'Check its address in svc provider list, and whether this machine is online.',
  },
  provider_tls_failed: {
    ...provider,
    retryable: false,
    meaning:
      'The connection to the provider cannot be secured: its certificate or its TLS is wrong.',
    hint:
      'Check its address in svc provider list. For a private certificate set ' +
      'NODE_EXTRA_CA_CERTS and run: svc restart',
  },
  provider_timed_out: {
    ...provider,
    http: 504,
    grpc: 'DEADLINE_EXCEEDED',
    meaning: 'The provider took too long.',
    hint: 'Try again, or ask for less at one time.',
  },
  provider_silent: {
    ...provider,
    http: 504,
    grpc: 'DEADLINE_EXCEEDED',
    exit: 124,
    type: 'timeout_error',
    meaning: 'The provider did not begin to answer in time.',
    hint:
      'Raise the limit first_output_ms for a slow model, or check it with: ' +
      'svc provider test <provider>',
  },
  provider_stalled: {
    ...provider,
    http: 504,
    grpc: 'DEADLINE_EXCEEDED',
    exit: 124,
    type: 'timeout_error',
    meaning: 'The provider stopped sending in the middle of its answer.',
    hint: 'Ask again, or raise the limit idle_ms for a slow model.',
  },
  provider_unavailable: {
    ...provider,
    http: 503,
    meaning: 'The provider failed several times in a row, so it is not asked for a short time.',
    hint: 'Wait until it is tried again, or try it now with: svc provider test <provider>',
  },
  provider_unauthorised: {
    ...byProvider,
    http: 401,
    grpc: 'UNAUTHENTICATED',
    exit: 5,
    type: 'authentication_error',
    meaning:
      'The provider refused the credentials that svc has for it, or none are set. The token for ' +
      'svc was accepted.',
    hint:
      'Store its key with svc provider key <provider>, then check it with svc provider test ' +
      '<provider>.',
  },
  provider_forbidden: {
    ...byProvider,
    http: 403,
    grpc: 'PERMISSION_DENIED',
    exit: 5,
    type: 'authentication_error',
    meaning: 'The provider knows the key, and does not allow this request with it.',
    hint: 'Check on its pages what the key may do, or choose another model or provider.',
  },
  provider_busy: {
    ...byProvider,
    http: 429,
    grpc: 'RESOURCE_EXHAUSTED',
    type: 'rate_limit_error',
    retryable: true,
    meaning: 'The provider takes no more requests now, because there were too many.',
    hint: 'Wait, or use another provider. See when it is asked again with: svc provider list',
  },
  provider_quota_exceeded: {
    ...provider,
    http: 429,
    grpc: 'RESOURCE_EXHAUSTED',
    type: 'insufficient_quota',
    retryable: false,
    meaning: 'The credit or the quota of the account at the provider is used up.',
    hint: 'Check the plan and the bills on its pages, or use another provider.',
  },
  provider_overloaded: {
    ...byProvider,
    keepsStatus: 5,
    http: 503,
    type: 'overloaded_error',
    retryable: true,
    meaning: 'The provider is overloaded or down for maintenance.',
    hint: 'Try again later, or use another provider.',
  },
  provider_failed: {
    ...provider,
    meaning: 'The provider responded with an error.',
    hint: 'Try again, or check it with: svc provider test <provider>',
  },
  provider_conflict: {
    ...provider,
    meaning: 'The provider reports a conflict with another request.',
    hint: 'Try again.',
  },
  provider_rejected: {
    ...byProvider,
    http: 400,
    grpc: 'INVALID_ARGUMENT',
    type: 'invalid_request_error',
    meaning: 'The provider rejected the request.',
    hint: 'See what it says: often it does not know the model or a parameter.',
  },
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
  price_unknown: {
    ...invalid,
    meaning: 'There is a budget, and the model has no price, so its cost cannot be counted.',
    hint: 'Set its price in the configuration under prices, by provider/model or provider/*.',
  },
  provider_not_found: {
    ...provider,
    retryable: false,
    meaning: 'The provider has nothing at this address.',
    hint: 'Check its address in svc provider list: it usually ends in /v1.',
  },
  provider_too_large: {
    ...byProvider,
    http: 413,
    grpc: 'INVALID_ARGUMENT',
    type: 'invalid_request_error',
    meaning: 'The request is larger than the provider takes.',
    hint: 'Shorten the prompt, or send smaller images.',
  },
  content_filtered: {
    ...byProvider,
    http: 400,
    grpc: 'INVALID_ARGUMENT',
    exit: 10,
    type: 'invalid_request_error',
    meaning: 'A content filter refused the request, or cut the answer.',
    hint: 'Ask in other words, or use another model.',
  },
  answer_empty: {
    ...provider,
    exit: 10,
    meaning: 'The answer has no text.',
    hint: 'Ask again, or in other words.',
  },
  answer_cut: {
    ...provider,
    exit: 10,
    retryable: false,
    meaning: 'The answer ends early: the context of the model, or the longest answer, is reached.',
    hint: 'Shorten the prompt, or use a model with a longer context.',
  },
  targets_failed: {
    ...provider,
    keepsStatus: 'any',
    meaning: 'A run had several targets, and none of them answered.',
    hint: 'See what each of them said: svc runs why <run>',
  },
  provider_adapter_missing: {
    ...provider,
    http: 503,
    exit: 6,
    retryable: false,
    meaning: "The package of the provider's adapter is not installed, or cannot be used.",
    hint: 'Install the package that the message names, in the folder of adapters.',
  },
  stream_truncated: {
    ...provider,
    exit: 10,
    meaning: 'The answer of the provider is incomplete.',
    hint: 'Ask again. See the run with: svc runs show <run>',
  },
  stream_garbled: {
    ...provider,
    exit: 10,
    retryable: false,
    meaning: 'The provider sent something that cannot be understood, so its answer is incomplete.',
    hint: 'Check that its address is right and its adapter fits: svc provider test <provider>',
  },
  stream_oversized: {
    ...provider,
    exit: 10,
    retryable: false,
    meaning: 'The provider sent more in one piece, or in all, than the daemon takes.',
    hint:
      'Ask for a shorter answer, such as with max_tokens. A limit that the message names can be ' +
      'raised.',
  },
  run_interrupted: {
    ...unavailable,
    exit: 10,
    meaning: 'The run was interrupted. The text so far is kept.',
    hint: 'See it with svc runs show <run>, or ask again.',
  },
  content_not_kept: {
    ...unavailable,
    exit: 10,
    meaning:
      'The log does not keep prompts or outputs in full. An interrupted run cannot ' +
      'continue, and an answer cannot be read again.',
    hint:
      'Ask again. The settings history.prompts, history.outputs and history.redact say what ' +
      'is kept.',
  },
  resume_failed: {
    ...unavailable,
    exit: 10,
    retryable: false,
    meaning: 'The run was interrupted and cannot continue: another model wrote its text.',
    hint: 'See it with svc runs show <run>. Send the prompt again for a whole answer.',
  },
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
  /** What to do, if it is not what the table says. */
  hint?: string;
  /** HTTP status of the response of a provider, where an answer keeps it. */
  status?: number;
}

/** What an error means for the next attempt. The daemon uses it; clients see only `retryable`. */
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
    return this.retryable ? (this.retryAfterMs ?? WAIT_MS) : null;
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
const WAIT_MS = 1000;

/** A hint of the table with the ids that it is about. Without one its placeholder stays. */
export function filledHint(
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
 * Anything thrown as an SvcError. The text of a foreign error stays in the cause. What is loaded
 * only when it is needed may be gone by then.
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

/** An event has them beside the message, what clients get has them in the details. */
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
