/** A longer text is not rendered: the page must answer meanwhile, and nobody reads what is nested deeper than this. */
export const mostCharacters = 150_000;
export const deepest = 100;
