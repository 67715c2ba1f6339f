import { decision } from './decide.ts';

export const run = decision('result', 'has this result.');
