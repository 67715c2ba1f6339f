import { mkdirSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { SVC_MODEL_ID } from './cases.mjs';
import { run } from './programs.mjs';

// Programs that svc launches have an own home, and an empty folder to work in.
const { SVC_PROGRAM, SVC_HOME_FOLDER, PATH } = process.env;
const cwd = resolve('launch-work');
export const home = resolve('launch-home');
for (const folder of [cwd, home]) mkdirSync(folder, { recursive: true });

export const options = {
  env: {
    PATH: `${resolve('node_modules/.bin')}${delimiter}${PATH}`,
    SVC_HOME: SVC_HOME_FOLDER,
    HOME: home,
    DISABLE_AUTOUPDATER: '1',
  },
  cwd,
};

export const launch = (program, ...words) =>
  run(process.execPath, [SVC_PROGRAM, 'launch', program, '-m', SVC_MODEL_ID, ...words], options);
