import { extname } from 'node:path';

const extension = extname(import.meta.url);

/** The first file of the process that loads models and answers. */
export const ENGINE = new URL(`./main${extension}`, import.meta.url);
/** The first file of the process that reads headers and templates of models. */
export const INSPECTION = new URL(`./inspect/worker${extension}`, import.meta.url);
/** The first file of the process that finds out whether the engine works here. */
export const PROBE = new URL(`./probe${extension}`, import.meta.url);
