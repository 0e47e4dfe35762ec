// Lets a check answer the page's requests for one session's index itself: for sessions of a size or a kind that recording
// would take long for.

/** indexOf tells requests for a session's index; with an after, those for the page that it leads to. */
export const indexOf = (name, after) => (url) =>
  decodeURIComponent(url.pathname) === `/api/sessions/demo:${name}/trajectory` && (after === undefined || url.searchParams.get("after") === after);

/** serveSession answers with the pages of a session that synthetic made. change can put something else into a page. */
export async function serveSession(page, made, change = (body) => body) {
  await page.route(indexOf(made.name), (route) => {
    const after = new URL(route.request().url()).searchParams.get("after");
    return route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(change(made.page(after), after)) });
  });
}
