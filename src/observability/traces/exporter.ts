import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base';
import type { Log } from '../../ports/log.ts';
import type { RunTrace } from './run-trace.ts';

export interface TraceExporter {
  /** Queues the spans. Drops them when the queue is full. */
  add(trace: RunTrace): void;
  /** Sends what is queued. Its caller bounds the wait. */
  close(): Promise<void>;
}

export interface ExporterOptions {
  /** Base address of the collector. */
  endpoint: string;
  version: string;
  boot_id: string;
  log: Log;
  /** Bound of one try to send. */
  send_ms?: number;
  /** How long spans wait for more before they are sent. */
  delay_ms?: number;
}

/**
 * Sends spans to an OTLP collector, by the semantic conventions for generative AI. They have no
 * text of a run.
 *
 * 1. A collector that fails or hangs costs the spans and nothing else. The queue is bounded.
 * 2. The log has one line when it begins to fail, and one when it works again.
 */
export function createExporter({
  endpoint,
  version,
  boot_id,
  log,
  send_ms = SEND_MS,
  delay_ms = DELAY_MS,
}: ExporterOptions): TraceExporter {
  const url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
  const otlp = new OTLPTraceExporter({
    url,
    timeoutMillis: send_ms,
    concurrencyLimit: SENDING_MAX,
  });
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      'service.name': 'svc',
      'service.version': version,
      'service.instance.id': boot_id,
    }),
    spanProcessors: [
      new BatchSpanProcessor(withFailureLog(otlp, log), {
        maxQueueSize: QUEUED_MAX,
        maxExportBatchSize: BATCH,
        scheduledDelayMillis: delay_ms,
        exportTimeoutMillis: send_ms,
      }),
    ],
  });
  const tracer = provider.getTracer('svc', version);
  return { add: (run) => addSpans(tracer, run), close: () => provider.shutdown() };
}

const SEND_MS = 10_000;
const SENDING_MAX = 2;
const QUEUED_MAX = 2048;
const BATCH = 256;
const DELAY_MS = 2000;

/** Logs when the collector begins to fail, and when it works again. */
function withFailureLog(exporter: SpanExporter, log: Log): SpanExporter {
  let fails = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        if (result.code !== 0 && !fails)
          log.warn(
            { err: result.error },
            'traces cannot be sent to otlp_endpoint, and are dropped',
          );
        if (result.code === 0 && fails) log.info({}, 'traces are sent again');
        fails = result.code !== 0;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}

function addSpans(tracer: Tracer, run: RunTrace): void {
  const { context } = run;
  const { request } = context;
  const span = tracer.startSpan(
    `chat ${request.model}`,
    { startTime: run.started_at, kind: SpanKind.SERVER, attributes: attributesOf(run) },
    parentOf(run.traceparent),
  );
  if (run.first_output_at !== null) span.addEvent('svc.first_output', run.first_output_at);
  const inside = trace.setSpan(ROOT_CONTEXT, span);
  for (const { attempt, started_at, ended_at, error } of run.attempts) {
    const child = tracer.startSpan(
      `attempt ${attempt}`,
      {
        startTime: started_at,
        kind: request.provider === 'local' ? SpanKind.INTERNAL : SpanKind.CLIENT,
        attributes: {
          'gen_ai.operation.name': 'chat',
          'gen_ai.provider.name': request.provider,
          'gen_ai.request.model': request.model,
          'svc.run.attempt': attempt,
          ...(error === null ? {} : { 'error.type': error }),
        },
      },
      inside,
    );
    if (error !== null) child.setStatus({ code: SpanStatusCode.ERROR });
    child.end(Math.max(started_at, ended_at));
  }
  if (run.error !== null) span.setStatus({ code: SpanStatusCode.ERROR });
  span.end(run.ended_at);
}

function attributesOf({
  outcome,
  error,
  started_at,
  first_output_at,
  context,
}: RunTrace): Attributes {
  const { request, completion, asked_as } = context;
  const { usage = null, finish_reason = null } = completion ?? {};
  const known: Record<string, string | number | string[] | null | undefined> = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': request.provider,
    'gen_ai.request.model': request.model,
    'gen_ai.request.max_tokens': request.max_tokens,
    'gen_ai.request.temperature': request.temperature,
    'gen_ai.request.top_p': request.top_p,
    'gen_ai.request.presence_penalty': request.presence_penalty,
    'gen_ai.request.frequency_penalty': request.frequency_penalty,
    'gen_ai.request.seed': request.seed_asked ? request.seed : null,
    'gen_ai.output.type': request.response_format === undefined ? 'text' : 'json',
    'gen_ai.response.id': context.run_id,
    'gen_ai.response.finish_reasons': finish_reason === null ? null : [finish_reason],
    'gen_ai.usage.input_tokens': usage?.input_tokens,
    'gen_ai.usage.output_tokens': usage?.output_tokens ?? context.output_tokens,
    'gen_ai.response.time_to_first_chunk':
      first_output_at === null ? null : Math.max(0, first_output_at - started_at) / 1000,
    'error.type': error,
    'svc.run.outcome': outcome,
    'svc.run.attempts': context.attempt,
    'svc.run.api': asked_as?.api,
  };
  return Object.fromEntries(
    Object.entries(known).filter(([, value]) => value != null),
  ) as Attributes;
}

/** The span of the client, by the header that named it. */
function parentOf(traceparent: string | null): Context {
  const [, traceId, spanId, flags] = /^00-(\w{32})-(\w{16})-(\w{2})$/.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  const traceFlags = Number.parseInt(flags ?? '0', 16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}
