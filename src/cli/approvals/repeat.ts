import { decision } from './decide.ts';

export const run = decision('repeat', 'is carried out again.');
