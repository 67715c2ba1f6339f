import { decision } from './decide.ts';

export const run = decision('deny', 'is denied. The model hears it.');
