import { bootPulls } from './pulls.ts';

/** A process that fetches a model from a hub into a folder, with nothing else of the daemon's: it can be killed at any time. */
const [hub = '', folder = '', reference = ''] = process.argv.slice(2);
const harness = await bootPulls({}, { env: { HF_ENDPOINT: hub }, puller: { folder } });
const { last, error } = await harness.pull(reference);
process.stdout.write(`${JSON.stringify({ last, error: error?.message ?? null })}\n`);
await harness.close();
