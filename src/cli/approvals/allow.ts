import { decision } from './decide.ts';

export const run = decision('allow', 'is allowed.');
