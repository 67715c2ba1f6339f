export { readBounded } from './bounded-body.ts';
export { createDispatcher } from './dispatcher.ts';
export { Incoming } from './incoming.ts';
export { isPublic, lookupOf } from './public-address.ts';
export { boundedWait, retryAfter } from './retry-after.ts';
