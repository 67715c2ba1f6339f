declare const BUILD: string | undefined;

/** Identifies the build of the code that runs. Null: it runs from its sources. */
export const build: string | null = typeof BUILD === 'undefined' ? null : BUILD;
