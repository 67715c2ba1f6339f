/** The part of the changelog about a version. Throws if it has none. */
export function notesOf(changelog: string, version: string): string {
  const [, ...parts] = changelog.split(/^## /m);
  const part = parts.find((text) => text.split('\n', 1)[0]?.trim() === version);
  const notes = part?.slice(part.indexOf('\n')).trim() ?? '';
  if (notes === '') throw new Error(`CHANGELOG.md says nothing of ${version}`);
  return notes;
}
