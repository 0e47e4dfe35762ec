/** The rows of a long list that are rendered: first inclusive, last exclusive. */
export interface Window {
  readonly first: number;
  readonly last: number;
}

/** windowOf is what stands in the viewport and some rows on either side. All rows have one height. */
export function windowOf(scrollTop: number, height: number, rowHeight: number, count: number, spare: number): Window {
  const first = Math.max(Math.floor(scrollTop / rowHeight) - spare, 0);
  const last = Math.min(Math.ceil((scrollTop + height) / rowHeight) + spare, count);
  return { first: Math.min(first, last), last };
}

/** scrollFor is the nearest scroll position that shows a row wholly, below a header of the given height. */
export function scrollFor(scrollTop: number, height: number, rowHeight: number, row: number, header: number): number {
  const top = row * rowHeight;
  if (top < scrollTop + header) return Math.max(top - header, 0);
  if (top + rowHeight > scrollTop + height) return top + rowHeight - height;
  return scrollTop;
}
