export { readNodeFile } from './node-file.ts';
export { openStoredLog } from './postgres/alone.ts';
export { type DatabaseFacts, inspectDatabase } from './postgres/inspect.ts';
export { fleetSite } from './site.ts';

/** A log of PostgreSQL as a source of records, and as their target. */
export const loadExport = () => import('./postgres/export.ts');
export const loadImport = () => import('./postgres/import.ts');
