import { decision } from './decide.ts';

export const run = decision('skip', 'has no result. The run goes on.');
