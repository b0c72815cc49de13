//! What is answered at once: vectors, models, health, metrics.

use super::{
    Api, json,
    problem::Problem,
    render,
    request::{EmbedBody, read},
    running::Numbers,
};
use axum::{
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use tokio::time::{Instant, timeout};

pub(super) async fn embed(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let body = api.body(request).await?;
    let (request, encoding) = read::<EmbedBody>(&body)?.checked()?;
    drop(body);
    let began = Instant::now();
    let model = request.model.clone();
    let inputs = request.inputs.len();
    let numbers = Numbers::new(api.metrics(), model.clone());
    let embedded = async {
        let _ticket = api.enter().await?;
        let mut ending = api.ending();
        let work = timeout(api.limits().total, api.engine().embed(request));
        tokio::select! {
            _ = ending.wait_for(|phase| *phase == super::Ending::Now) => Err(Problem::ending()),
            work = work => work.map_err(|_| Problem::late())?.map_err(Problem::engine),
        }
    };
    let embedded = match embedded.await {
        Ok(embedded) if embedded.vectors.len() == inputs => embedded,
        Ok(_) => {
            numbers.failed();
            let reason = "it gave another number of vectors than of texts".to_owned();
            return Err(Problem::engine(crate::engine::Failed::Broken { reason }));
        }
        Err(problem) => {
            numbers.failed();
            return Err(problem);
        }
    };
    numbers.whole(began, embedded.prompt_tokens);
    Ok(json(render::embeddings(&model, &embedded, encoding)))
}

pub(super) async fn models(State(api): State<Api>) -> Result<Response, Problem> {
    Ok(json(render::models(&api.models().await?)))
}

pub(super) async fn model(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let models = api.models().await?;
    let card = models.iter().find(|card| card.id == id);
    Ok(json(render::model(card.ok_or_else(|| Problem::no_model(&id))?)))
}

/// The process lives.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// The engine has a model, and the server does not end.
pub(super) async fn ready(State(api): State<Api>) -> Result<&'static str, Problem> {
    if *api.ending().borrow() != super::Ending::NotYet {
        return Err(Problem::ending());
    }
    if api.is_ready().await {
        return Ok("ok\n");
    }
    let reason = "no model is there".to_owned();
    Err(Problem::engine(crate::engine::Failed::Unavailable { reason }))
}

/// The numbers, as Prometheus reads them.
pub(super) async fn metrics(State(api): State<Api>) -> Response {
    let mut response = Response::new(Body::from(api.metrics().render()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
