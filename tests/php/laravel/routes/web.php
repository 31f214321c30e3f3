<?php
use App\Pages;
use Illuminate\Support\Facades\Route;

Route::get('/', [Pages::class, 'home']);
Route::put('/json/{id}', [Pages::class, 'json'])->whereNumber('id');
Route::get('/form', [Pages::class, 'form']);
Route::post('/form', [Pages::class, 'send']);
Route::post('/upload', [Pages::class, 'upload']);
foreach (['counter', 'saved', 'login', 'me', 'logout', 'cookie', 'cookies', 'stream', 'download', 'boom', 'error', 'warning', 'teapot',
    'services', 'facades', 'requests'] as $page) {
    Route::get("/$page", [Pages::class, $page]);
}
