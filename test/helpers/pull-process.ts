import { bootPulls } from './pulls.ts';

/** A process that only fetches a model from a hub into a folder. A test can kill it at any time. */
const [hub = '', folder = '', reference = ''] = process.argv.slice(2);
const harness = await bootPulls({}, { env: { HF_ENDPOINT: hub }, puller: { folder } });
const { last, error } = await harness.pull(reference);
process.stdout.write(`${JSON.stringify({ last, error: error?.message ?? null })}\n`);
await harness.close();
