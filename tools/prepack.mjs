// `npm pack` builds the program. In a fresh clone it installs first what the build needs.

import { execSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// What it prints is not the name of the package, which scripts read from the output of `npm pack`.
if (!existsSync('node_modules/esbuild')) execSync('npm ci', { stdio: ['ignore', 2, 2] });
