import type { Kernel } from '../../kernel/kernel.ts';
import type { ExporterOptions, TraceExporter } from './exporter.ts';
import { traceRuns } from './run-trace.ts';

/**
 * Sends a trace of each run to the collector. Without an endpoint nothing is heard or loaded. No
 * part of the daemon waits for it.
 */
export function startTraces(
  kernel: Kernel,
  { endpoint, ...options }: Omit<ExporterOptions, 'endpoint'> & { endpoint: string | null },
): { close(): Promise<void> } {
  if (endpoint === null) return { close: async () => {} };
  const loading: Promise<TraceExporter | null> = import('./exporter.ts').then(
    ({ createExporter }) => createExporter({ endpoint, ...options }),
  );
  const loaded = loading.catch((error: unknown) => {
    options.log.warn({ err: error }, 'traces are not sent: the exporter could not be made');
    return null;
  });
  traceRuns(kernel, (run) => {
    loaded
      .then((exporter) => exporter?.add(run))
      .catch((error: unknown) => options.log.debug({ err: error }, 'a trace was dropped'));
  });
  return { close: async () => (await loaded)?.close().catch(() => {}) };
}
