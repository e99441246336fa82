// Requests, downloads and the stream of frames. The token, where there is one, is in the address's fragment and goes in a header.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", "#new");
}
const headers = () => (sessionStorage.getItem("token") ? { "X-Resetfree-Token": sessionStorage.getItem("token") } : {});

async function answered(response) {
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new Error(answer.error || `The studio answered with ${response.status}.`);
}
const reached = (promise) => promise.catch((error) => { throw error.name === "TypeError" ? new Error("The studio cannot be reached: is it still running?") : error; });

export const get = async (path) => (await answered(await reached(fetch(path, { headers: headers() })))).json();
export const post = async (path, data) => (await answered(await reached(fetch(path, { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(data) })))).json();

export async function download(path, name) {
  const blob = await (await answered(await reached(fetch(path, { headers: headers() })))).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Server-sent events by fetch, because an EventSource cannot carry a header. Connects again until it is ended.
export function watch(name, receive) {
  const ending = new AbortController();
  (async () => {
    let wait = 300;
    while (!ending.signal.aborted) {
      try {
        const response = await answered(await fetch(`/api/watch?name=${encodeURIComponent(name)}`, { headers: headers(), signal: ending.signal }));
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          const parts = (rest + value).split("\n\n");
          rest = parts.pop();
          for (const part of parts) {
            const found = /^event: (\w+)\ndata: (.*)$/s.exec(part);
            if (found && !ending.signal.aborted) receive(found[1], JSON.parse(found[2]));
          }
          wait = 300;
        }
      } catch (error) {
        if (ending.signal.aborted) return;
        receive("trouble", { error: error.name === "TypeError" ? "The studio cannot be reached. Trying again…" : error.message });
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 5000);
    }
  })();
  return () => ending.abort();
}
